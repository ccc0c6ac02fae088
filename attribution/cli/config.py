"""``recovery config``: which settings are in force, and who set them; and how commands come to know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from attribution.config import Loaded

app = typer.Typer(help="Look at the settings.", no_args_is_help=True)

#: Settings that become the default of the option of the same name, in every command that has it.
_SHARED = ("store", "rules", "policy", "engine", "redact", "jobs", "cluster")
#: (command, parameter) -> setting, where names differ or only one command is meant.
_OWN = {("analyze", "format_"): "format", ("analyze", "mine"): "mine", ("watch", "interval"): "poll_s"}
#: The pages of the shipped rules are made from those alone, whoever makes them.
_APART = {("docs", "rules")}


def default_map(command: Any, loaded: Loaded) -> dict[str, Any]:
    """Defaults of the options of `command` and of those below it, as far as a file or the environment sets them.

    For ``context.default_map`` of the root command: flags and an option's own variable are nearer and still win.
    """
    out: dict[str, Any] = {}
    for name, sub in getattr(command, "commands", {}).items():
        if getattr(sub, "commands", None):
            inside = default_map(sub, loaded)
        else:
            inside = {p.name: v for p in sub.params if (v := _default(name, p, loaded)) is not None}
        if inside:
            out[name] = inside
    return out


def _default(command: str, parameter: Any, loaded: Loaded) -> Any:
    word = parameter.name
    setting = _OWN.get((command, word)) or (word if word in _SHARED and (command, word) not in _APART else None)
    if setting is None or parameter.required or loaded.origins[setting].kind == "default":
        return None
    if word != "store" and parameter.param_type_name == "argument":
        return None
    value = getattr(loaded.settings, setting)
    if word == "mine":
        return value == "all"
    if isinstance(value, tuple):
        return [str(v) for v in value]
    return value if value is None or isinstance(value, int | float) else str(value)


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
