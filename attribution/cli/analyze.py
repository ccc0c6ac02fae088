"""``recovery analyze``: logs in, one diagnosis and one Advice per attempt out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

Paths = Annotated[list[str], typer.Argument(help="Files, folders, globs, or - for standard input.", metavar="PATH...")]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="Folder of the store.  [default: recovery-store]", envvar="RECOVERY_STORE"),
]
RulesOption = Annotated[
    list[Path] | None, typer.Option("--rules", help="Overlay folder with site rules; may be given again.")
]


def analyze(
    paths: Paths,
    store: StoreOption = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Print only, write nothing.")] = False,
    format_: Annotated[
        str, typer.Option("--format", "-f", help="rich, json, jsonl, csv or parquet (the last two want --output).")
    ] = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here instead of standard output.")
    ] = None,
    pattern: Annotated[
        list[str] | None, typer.Option("--pattern", help="File names, as in '{job}_{rank}.log'; may be given again.")
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Every PATH is a job of its own, whatever its content says.")
    ] = False,
    sacct: Annotated[
        list[str] | None, typer.Option("--sacct", help="Accounting export: sacct --json, or sacct -P with header.")
    ] = None,
    kernel_log: Annotated[
        list[str] | None, typer.Option("--kernel-log", help="dmesg or journal of a node; file, folder or glob.")
    ] = None,
    rules: RulesOption = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="Policy document instead of the default one.")] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Name of the cluster, part of every attempt's key.")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="auto, hyperscan or python (same matches, slower).")] = "auto",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0 takes one per core.")] = 0,
    mine: Annotated[bool, typer.Option("--mine/--no-mine", help="Cluster lines into templates.")] = True,
    reanalyze: Annotated[
        bool, typer.Option("--reanalyze", help="Analyse unchanged inputs again; the old results stay as history.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bar and no notes on standard error.")
    ] = False,
) -> None:
    """Diagnose every attempt found in PATH: what happened, where, how sure, what next."""
    import time

    from attribution.analyze import Options
    from attribution.cli.output import Format, choose
    from attribution.cli.run import run

    chosen: Format = choose(format_, output)
    options = Options(
        patterns=tuple(pattern or ()),
        each=each,
        kernel_logs=tuple(kernel_log or ()),
        accounting=tuple(sacct or ()),
        rules=tuple(rules or ()),
        policy=policy,
        engine=engine,
        mine=mine and not no_store,
        cluster=cluster,
        now_s=float(int(time.time())),
    )
    code = run(
        paths,
        options,
        store=None if no_store else (store or Path("recovery-store")),
        output=chosen,
        jobs=jobs,
        reanalyze=reanalyze,
        quiet=quiet or not sys.stderr.isatty(),
    )
    raise typer.Exit(code)
