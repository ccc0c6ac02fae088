"""``recovery query`` and ``recovery store``: questions to a store, and its upkeep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import polars as pl

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the store.", envvar="RECOVERY_STORE")]
DEFAULT = Path("recovery-store")

store_app = typer.Typer(help="Look after a store.", no_args_is_help=True)


def query(
    sql: Annotated[str, typer.Argument(help='SQL, as "select class, count(*) from diagnoses group by 1".')],
    store: StoreOption = DEFAULT,
    format_: Annotated[str, typer.Option("--format", "-f", help="table, json, jsonl, csv or parquet.")] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here instead of standard output.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", help="Most rows of a table; 0 prints all.")] = 100,
) -> None:
    """Ask the store in SQL (DuckDB's). Tables: attempts, diagnoses, advice, matches, episodes, templates, template_counts, labels."""
    import sys

    from attribution.model import ConfigError
    from attribution.store import Store

    frame = Store(store).sql(sql)
    if format_ == "parquet" or (output is not None and output.suffix == ".parquet"):
        if output is None:
            raise ConfigError("Parquet is binary and wants a file", where="--format parquet", mend="add --output FILE")
        frame.write_parquet(output)
        return
    if format_ == "table":
        import polars as pl

        with pl.Config(
            tbl_rows=-1 if rows == 0 else rows, tbl_cols=-1, fmt_str_lengths=120, tbl_hide_dataframe_shape=True,
            tbl_hide_column_data_types=True, tbl_width_chars=200,
        ):  # fmt: skip
            text = f"{frame}\n"
    elif format_ == "csv":
        text = _flat(frame).write_csv()
    elif format_ == "json":
        text = frame.write_json() + "\n"
    elif format_ == "jsonl":
        text = frame.write_ndjson()
    else:
        raise ConfigError(
            f"unknown format {format_!r}", where="--format", mend="use table, json, jsonl, csv or parquet"
        )
    if output is not None:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists joined with blanks: CSV has no lists."""
    import polars as pl

    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    return frame.with_columns(pl.col(name).list.join(" ") for name in lists)


@store_app.command("info")
def info(store: StoreOption = DEFAULT) -> None:
    """How much is in the store, table by table, and which runs wrote it."""
    from rich.console import Console
    from rich.table import Table

    from attribution.store import Store

    opened = Store(store)
    manifests = opened.manifests()
    table = Table(box=None)
    for column in ("table", "rows", "files", "bytes"):
        table.add_column(column, justify="left" if column == "table" else "right")
    names = sorted({f.split("/", 1)[0] for m in manifests for f in m.files})
    for name in names:
        files = [f for m in manifests for f in m.files if f.startswith(f"{name}/")]
        size = sum((opened.path / f).stat().st_size for f in files)
        table.add_row(name, f"{sum(m.rows.get(name, 0) for m in manifests):,}", str(len(files)), f"{size:,}")
    console = Console()
    console.print(table)
    console.print(f"{len(manifests)} commit units of {len({m.run_id for m in manifests})} runs")


@store_app.command("compact")
def compact(store: StoreOption = DEFAULT) -> None:
    """Put many small files together. Readers and writers may go on meanwhile."""
    from attribution.store import Store
    from attribution.store.compact import compact as run

    before, after = run(Store(store))
    typer.echo(f"{before} units are now {after}")


@store_app.command("verify")
def verify(store: StoreOption = DEFAULT) -> None:
    """Check that every committed file is there and whole. Exit code 1 where one is not."""
    from attribution.store import Store

    problems = Store(store).verify()
    for p in problems:
        typer.echo(p)
    if any("no committed run" not in p for p in problems):
        raise typer.Exit(1)
    typer.echo("every committed file is there and whole")


@store_app.command("label")
def label(
    attempt: Annotated[str, typer.Argument(help="Id of the attempt; a unique beginning will do.")],
    values: Annotated[
        list[str],
        typer.Argument(help="FIELD=VALUE: outcome, class, root_line, culprit_node, culprit_rank, action or note."),
    ],
    by: Annotated[str, typer.Option("--by", help="Who says so.  [default: person: and your login name]")] = "",
    store: StoreOption = DEFAULT,
) -> None:
    """Say what is true of an attempt. Rules and classifiers are measured against it; the newest label counts."""
    import getpass
    import time

    from attribution.model import ConfigError
    from attribution.store import Store

    pairs = [v.split("=", 1) for v in values]
    if bad := [p[0] for p in pairs if len(p) != 2 or not p[1]]:
        raise ConfigError(f"{bad[0]!r} is not FIELD=VALUE", where="label", mend="as in class=gpu_memory.cuda_oom")
    opened = Store(store)
    attempt_id = opened.attempt_id(attempt)
    opened.label(attempt_id, dict(pairs), by=by or f"person:{getpass.getuser()}", now_s=time.time())
    typer.echo(f"labelled {attempt_id}")
