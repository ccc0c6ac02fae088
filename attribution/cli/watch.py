"""``recovery watch``: follow running jobs' logs and say what happens, as it happens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from attribution.live.watch import Event


def watch(
    paths: Annotated[list[str], typer.Argument(help="Files, folders or globs; new files below them are found.")],
    interval: Annotated[
        float, typer.Option("--interval", min=0.02, help="Seconds between two looks at the files.")
    ] = 0.5,
    rescan: Annotated[float, typer.Option("--rescan", min=1.0, help="Seconds between two looks for new files.")] = 10.0,
    settle: Annotated[float, typer.Option("--settle", help="Seconds that the true root is given to arrive.")] = 5.0,
    quiet: Annotated[
        float, typer.Option("--quiet-after", help="Seconds without a line that make an ending final.")
    ] = 30.0,
    format_: Annotated[str, typer.Option("--format", "-f", help="rich or jsonl.")] = "auto",
    pattern: Annotated[
        list[str] | None, typer.Option("--pattern", help="File names, as in '{job}_{rank}.log'.")
    ] = None,
    rules: Annotated[list[Path] | None, typer.Option("--rules", help="Overlay folder with site rules.")] = None,
    from_start: Annotated[
        bool,
        typer.Option("--from-start", help="Report what already stands in the files, too; it is history otherwise."),
    ] = False,
    rounds: Annotated[int, typer.Option("--rounds", min=0, help="Stop after this many looks; 0 goes on for ever.")] = 0,
    until_ended: Annotated[bool, typer.Option("--until-ended", help="Stop when every followed job has ended.")] = False,
) -> None:
    """Follow the logs of running jobs: crash, hang, end, each said once, with diagnosis and advice."""
    import sys
    import time

    from attribution.analyze import Analyzer, Options
    from attribution.live.follow import Follower
    from attribution.live.watch import Kind, Limits, Watcher
    from attribution.sources.discover import discover

    analyzer = Analyzer(Options(rules=tuple(rules or ()), mine=False, patterns=tuple(pattern or ())))
    watcher = Watcher(
        analyzer,
        Follower(time.monotonic),
        limits=Limits(settle_s=settle, quiet_s=quiet),
        history=not from_start,
    )
    as_json = format_ == "jsonl" or (format_ == "auto" and not sys.stdout.isatty())
    looked, done, ended = -1e9, 0, set()
    while True:
        now = time.monotonic()
        if now - looked >= rescan:
            looked = now
            for job in discover(paths, patterns=tuple(pattern or ())).groups:
                watcher.add(job)
        for event in watcher.tick(now):
            _say(event, as_json)
            if event.kind is Kind.ENDED:
                ended.add(event.job)
        done += 1
        if (rounds and done >= rounds) or (until_ended and watcher and len(ended) == len(watcher)):
            return
        time.sleep(max(0.0, interval - (time.monotonic() - now)))


def _say(event: Event, as_json: bool) -> None:
    import sys
    import time

    import orjson

    from attribution.report.json import diagnosis_document

    document = None
    if event.result is not None:
        document = diagnosis_document(event.result.evidence.attempt, event.result.diagnosis, event.result.advice)
    if as_json:
        row = {
            "event": str(event.kind),
            "id": event.id,
            "job": event.job,
            "time_s": time.time(),
            "text": event.text,
            "diagnosis": document,
        }
        sys.stdout.write(orjson.dumps(row).decode() + "\n")
        sys.stdout.flush()
        return
    from rich.console import Console
    from rich.text import Text

    from attribution.report.console import attempt_panel, visible

    console = Console()
    console.print(Text(f"{time.strftime('%H:%M:%S')} {event.kind} {event.job}: {visible(event.text)}"))
    if document is not None:
        console.print(attempt_panel(document))
