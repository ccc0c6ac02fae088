"""Options and small calls that the commands of ``recovery policy`` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from attribution.policy import Policy
    from attribution.signatures import ClassInfo

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the store.", envvar="RECOVERY_STORE")]
Format = Annotated[str, typer.Option("--format", "-f", help="rich or json.")]
Overlays = Annotated[list[Path] | None, typer.Option("--rules", help="Overlay folder of rules; may be given again.")]
DEFAULT = Path("recovery-store")


def taxonomy(overlays: list[Path] | None) -> Mapping[str, ClassInfo]:
    """Classes of the shipped rules and of overlays."""
    from attribution import resources
    from attribution.signatures import load as load_rules

    return load_rules((resources.rules_dir(), *(overlays or ()))).taxonomy


def load(path: Path | None) -> Policy:
    """A policy document, or the shipped one."""
    from attribution.policy import load_policy

    return load_policy(path)


def store_frame(store: Path, where: str = "", parameters: Sequence[Any] = ()) -> pl.DataFrame:
    """Stored attempts as `attribution.policy.past.records` reads them."""
    from attribution.policy.past import RECORDS_SQL
    from attribution.store import Store

    return Store(store).sql(RECORDS_SQL + where, parameters)


def print_json(value: Any) -> None:
    """Indented JSON of dataclasses and plain values; numbers without end become null."""
    import orjson

    from attribution.model import to_plain

    typer.echo(orjson.dumps(to_plain(value), option=orjson.OPT_INDENT_2).decode())


def one_of(format_: str, *names: str) -> None:
    """Complain about an unknown format."""
    if format_ not in names:
        raise typer.BadParameter(f"use {' or '.join(names)}", param_hint="--format")
