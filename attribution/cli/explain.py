"""``recovery explain``: the whole chain of one attempt, from its lines to its advice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from attribution.model import Episode

#: Lines shown before and after a cited one.
AROUND = 3


def explain(
    attempt: Annotated[str, typer.Argument(help="Attempt id, or the beginning of one; or the path of a log.")],
    store: Annotated[Path | None, typer.Option("--store", help="Folder of the store.", envvar="RECOVERY_STORE")] = None,
    format_: Annotated[str, typer.Option("--format", "-f", help="rich or json.")] = "rich",
) -> None:
    """Show why: lines in context, matches with their roles, why this root, why this advice."""
    import orjson
    from rich.console import Console

    from attribution.analyze import Options, analyze
    from attribution.report.console import explanation
    from attribution.report.json import diagnosis_document
    from attribution.store import Store

    if Path(attempt).exists():
        files, wanted = [attempt], None
    else:
        document = Store(store or Path("recovery-store")).document(attempt)
        files, wanted = document["attempt"]["files"], document["attempt"]["id"]
        missing = [f for f in files if not Path(f).exists()]
        if missing or format_ == "json":
            _from_store(document, missing, format_)
            return
    results = [
        r for r in analyze(files, Options(mine=False)) if wanted is None or str(r.evidence.attempt.key) == wanted
    ]
    for r in results or list(analyze(files, Options(mine=False, each=True)))[-1:]:
        document = diagnosis_document(r.evidence.attempt, r.diagnosis, r.advice)
        if format_ == "json":
            typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        else:
            Console().print(explanation(document, r.episodes, _context(r.episodes)))


def _from_store(document: dict[str, object], missing: list[str], format_: str) -> None:
    import orjson
    from rich.console import Console

    from attribution.report.console import attempt_panel

    if format_ == "json":
        typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    Console().print(attempt_panel(document))
    typer.echo(f"the log is no longer there ({missing[0]}); this is what the store keeps", err=True)


def _context(episodes: Iterable[Episode]) -> dict[tuple[str, int], Sequence[str]]:
    """Raw lines around every cited match, read once per file."""
    wanted: dict[str, set[int]] = {}
    for e in episodes:
        for m in (*e.initiating[:6], *e.confirmation[:6], *e.cascade[:6], *e.teardown[:6]):
            wanted.setdefault(m.place.path, set()).add(m.place.line)
    out: dict[tuple[str, int], Sequence[str]] = {}
    for path, lines in wanted.items():
        out.update({(path, n): text for n, text in _around(path, lines).items()})
    return out


def _around(path: str, lines: set[int]) -> dict[int, list[str]]:
    from attribution.redact import redact
    from attribution.sources.blocks import ReadReport, read_blocks
    from attribution.sources.discover import discover

    near = {n + d for n in lines for d in range(-AROUND, AROUND + 1)}
    found: dict[int, str] = {}
    for job in discover([path], each=True).groups:
        for file in job.files:
            for block in read_blocks(file, report=ReadReport()):
                inside = [n for n in near if block.first_line <= n < block.next_line]
                if not inside:
                    continue
                pieces = bytes(block.data).split(b"\n")
                for n in inside:
                    found[n] = redact(pieces[n - block.first_line][:2000].decode("utf-8", "replace"))
    return {
        n: [f"{'>' if k == n else ' '} {k:>6} {found[k]}" for k in range(n - AROUND, n + AROUND + 1) if k in found]
        for n in lines
    }
