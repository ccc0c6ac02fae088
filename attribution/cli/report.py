"""``recovery report``: a store, or one of its attempts, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from attribution.model import ProgressPoint
    from attribution.store import Store


def report(
    store: Annotated[
        Path, typer.Argument(help="Folder of the store.", envvar="RECOVERY_STORE", metavar="[STORE]")
    ] = Path("recovery-store"),
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; - is standard output.")] = Path(
        "report.html"
    ),
    attempt: Annotated[
        str | None, typer.Option("--attempt", help="Only this attempt: its id, or the beginning of it.")
    ] = None,
    title: Annotated[str, typer.Option("--title", help="Heading of the overview.")] = "Why jobs failed",
) -> None:
    """Write a self-contained HTML report: what fails, what it costs, which nodes, and each failure with its evidence."""
    import sys
    import time

    from attribution.report.html import attempt_report, store_report
    from attribution.store import Store

    opened = Store(store)
    now_s = float(int(time.time()))
    if attempt is None:
        page = store_report(opened, now_s=now_s, title=title)
    else:
        page = attempt_report(opened, attempt, points=_points(opened, attempt), now_s=now_s)
    if str(output) == "-":
        sys.stdout.write(page)
        return
    output.write_text(page, encoding="utf-8", errors="replace")
    typer.echo(f"wrote {output}", err=True)


def _points(store: Store, attempt: str) -> tuple[ProgressPoint, ...] | None:
    """Progress points, from the log where it is still there as it was; the store does not keep them."""
    from attribution.analyze import Options, analyze

    told = store.document(attempt)["attempt"]
    if not all(Path(f).is_file() for f in told["files"]):
        return None
    for each in (False, True):
        for result in analyze(told["files"], Options(mine=False, each=each)):
            if (
                str(result.evidence.attempt.key) == told["id"]
                and result.evidence.attempt.size_bytes == told["size_bytes"]
            ):
                return result.evidence.progress.points
    return None
