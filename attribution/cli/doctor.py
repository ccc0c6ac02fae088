"""``recovery doctor``: what was recognised in some logs, what was not, and whether this installation is sound."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from attribution.sources.survey import Check, Survey


def doctor(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Files, folders, globs, or - for standard input.", metavar="[PATH]...")
    ] = None,
    format_: Annotated[str, typer.Option("--format", "-f", help="rich or json.")] = "rich",
    pattern: Annotated[
        list[str] | None, typer.Option("--pattern", help="File names, as in '{job}_{rank}.log'; may be given again.")
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Every PATH is a job of its own, whatever its content says.")
    ] = False,
    kernel_log: Annotated[
        list[str] | None, typer.Option("--kernel-log", help="dmesg or journal of a node; file, folder or glob.")
    ] = None,
    sacct: Annotated[list[str] | None, typer.Option("--sacct", help="Accounting export to check.")] = None,
) -> None:
    """Say how PATH would be understood (jobs, prefixes, time stamps), and check the installation."""
    from attribution.model import ConfigError
    from attribution.sources.survey import check_installation, survey

    if format_ not in ("rich", "json"):
        raise ConfigError(f"unknown format {format_}", where="--format", mend="use rich or json")
    checks = check_installation()
    found = survey(
        paths or [],
        patterns=tuple(pattern or ()),
        each=each,
        kernel_logs=tuple(kernel_log or ()),
        accounting=tuple(sacct or ()),
    )
    if format_ == "json":
        _print_json(found, checks)
    else:
        _print_rich(found, checks)
    bad = any(p.lost for p in found.problems) or any(f.problems for f in found.files)
    raise typer.Exit(1 if bad or any(not c.good for c in checks) else 0)


def _print_json(found: Survey, checks: tuple[Check, ...]) -> None:
    import orjson

    from attribution.model import to_plain

    document = {"schema": "recovery.doctor/1", "checks": to_plain(checks), **to_plain(found)}
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


def _print_rich(found: Survey, checks: tuple[Check, ...]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if found.files:
        table = Table(
            title=f"{len(found.files)} files, {found.jobs} jobs", title_justify="left", show_lines=True, expand=True
        )
        table.add_column("file", overflow="fold", ratio=2)
        table.add_column("understood as", overflow="fold", ratio=3)
        for f in found.files:
            kind = f.kind if f.compression is None else f"{f.kind}, {f.compression}"
            said = Text(f"{f.identity}\n{kind}, {f.bytes_read:,} bytes, {f.lines:,} lines\n")
            said.append(f"prefixes {', '.join(f.prefixes)}\ntime {f.time}")
            for what in (*f.unknown, *f.problems):
                said.append(f"\n{what}", style="yellow")
            table.add_row(Text(f.path), said)
        console.print(table)
    for p in found.problems:
        console.print(Text(f"{p.path}: {p.what}", style="yellow" if p.lost else "dim"))
    for c in checks:
        console.print(Text("ok    " if c.good else "WRONG ", style="green" if c.good else "red"), end="")
        console.print(Text(f"{c.what}: {c.found}"))
        if c.mend:
            console.print(Text(f"      {c.mend}"))
