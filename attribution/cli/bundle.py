"""``recovery bundle`` and ``recovery replay``: a verdict to pass on, and to have again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from attribution.redact import Level


def bundle(
    attempt: Annotated[str, typer.Argument(help="Path of a log or a job's folder; or an attempt id in the store.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, as case.tar.zst.")],
    store: Annotated[Path, typer.Option("--store", help="Folder of the store.", envvar="RECOVERY_STORE")] = Path(
        "recovery-store"
    ),
    rules: Annotated[
        list[Path] | None, typer.Option("--rules", help="Folder of rules laid over the shipped ones.")
    ] = None,
    redact: Annotated[str, typer.Option("--redact", help="none, secrets or personal.")] = "secrets",
) -> None:
    """Put the evidence of one attempt, redacted, in one file from which its verdict can be had again."""
    from attribution.analyze import Analyzer, Options
    from attribution.bundle import make, write
    from attribution.model import SourceError
    from attribution.sources.discover import discover
    from attribution.store import Store

    wanted = None
    if Path(attempt).exists():
        files = [attempt]
    else:
        document = Store(store).document(attempt)
        files, wanted = document["attempt"]["files"], document["attempt"]["id"]
        gone = [f for f in files if not Path(f).exists()]
        if gone:
            raise SourceError("the log is no longer there", where=gone[0], mend="a bundle is made from the logs")
    analyzer = Analyzer(Options(mine=False, rules=tuple(rules or ())))
    found = discover(files, each=wanted is None)
    analyzer.read_kernel_logs(found)
    results = [r for job in found.groups for r in analyzer.job(job)]
    fitting = [r for r in results if wanted is None or str(r.evidence.attempt.key) == wanted]
    if not fitting:
        raise SourceError("no attempt was found in the logs", where=files[0] if files else attempt)
    made = make(fitting[-1].evidence, analyzer, level=_level(redact))
    write(made, output)
    typer.echo(
        f"{output}: {made.manifest['attempt']}, {made.document['class']}, {output.stat().st_size:,} bytes", err=True
    )


def replay(
    path: Annotated[Path, typer.Argument(help="A bundle.")],
    rules: Annotated[
        list[Path] | None, typer.Option("--rules", help="Folder of rules laid over the shipped ones.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", "-f", help="rich or json.")] = "rich",
) -> None:
    """Make the verdict of a bundle again. Exit code 1 where it is not the same."""
    import orjson
    from rich.console import Console

    from attribution.analyze import Analyzer, Options
    from attribution.bundle import read
    from attribution.bundle import replay as again
    from attribution.report.console import attempt_panel

    held = read(path)
    options = Options(mine=False, rules=tuple(rules or ()), now_s=float(held.manifest["now_s"]))
    result = again(held, Analyzer(options))
    if format_ == "json":
        typer.echo(orjson.dumps(result.document).decode())
    else:
        Console().print(attempt_panel(result.document))
    for note in result.notes:
        typer.echo(note, err=True)
    if result.differences:
        typer.echo("not the same: " + ", ".join(result.differences), err=True)
        raise typer.Exit(1)
    typer.echo("the same verdict, bit for bit", err=True)


def _level(name: str) -> Level:
    from attribution.model import ConfigError
    from attribution.redact import Level

    try:
        return Level(name)
    except ValueError as error:
        raise ConfigError(f"unknown level {name!r}", where="--redact", mend="use " + ", ".join(Level)) from error
