"""``recovery config``: which settings are in force, and who set them."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Look at the settings.", no_args_is_help=True)


@app.command("show")
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Tell where each value comes from.")] = False,
    format_: Annotated[str, typer.Option("--format", "-f", help="text or json.")] = "text",
) -> None:
    """Print the settings in force: flag > environment > project > user > site > default."""
    import orjson

    from attribution.config import load_settings, plain
    from attribution.model import ConfigError

    if format_ not in ("text", "json"):
        raise ConfigError(f"unknown format {format_!r}", where="--format", mend="use text or json")
    values = plain(load_settings())
    if format_ == "json":
        document = values if origin else {name: v["value"] for name, v in values.items()}
        typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    for name, v in values.items():
        value = orjson.dumps(v["value"]).decode()
        typer.echo(f"{name} = {value}" + (f"  # {v['origin']}" if origin else ""))


@app.command("schema")
def schema() -> None:
    """Print the JSON schema of a configuration file."""
    import orjson

    from attribution.config import schema as make

    typer.echo(orjson.dumps(make(), option=orjson.OPT_INDENT_2).decode())
