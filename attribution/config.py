"""Settings: where each value comes from, and what may be set.

The nearest word wins: flag, environment (``RECOVERY_*``), project (``recovery.toml``, or ``[tool.recovery]`` in
``pyproject.toml``, in the working folder or one above it), user (``$XDG_CONFIG_HOME/recovery/config.toml``), site
(``/etc/recovery/config.toml``), default. Every value knows its origin. A key that is not known is an error, with the
nearest name: a misspelt limit that is silently ignored is worse than none.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from attribution.model import ConfigError

SITE_FILE = Path("/etc/recovery/config.toml")
SCHEMA_ID = "recovery.config/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: its name, what it may be, what it means. `kind` is str, path, paths, int or float."""

    name: str
    kind: str
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    least: float | None = None

    @property
    def variable(self) -> str:
        """Name of its environment variable."""
        return f"RECOVERY_{self.name.upper()}"


SETTINGS: tuple[Setting, ...] = (
    Setting(name="store", kind="path", default="recovery-store", doc="folder of the store"),
    Setting(name="rules", kind="paths", default=(), doc="folders of rules laid over the shipped ones, last wins"),
    Setting(name="policy", kind="path", default=None, doc="policy document; none takes the shipped one"),
    Setting(
        name="engine",
        kind="str",
        default="auto",
        doc="regex engine",
        choices=("auto", "hyperscan", "python"),
    ),
    Setting(
        name="redact",
        kind="str",
        default="secrets",
        doc="what is taken out of log text before it is stored or shown",
        choices=("none", "secrets", "personal"),
    ),
    Setting(
        name="format",
        kind="str",
        default="auto",
        doc="form of results on standard output",
        choices=("auto", "rich", "json", "jsonl", "csv", "parquet"),
    ),
    Setting(name="jobs", kind="int", default=0, doc="processes; 0 takes one per core", least=0),
    Setting(name="poll_s", kind="float", default=0.5, doc="seconds between two looks at live logs", least=0.1),
    Setting(
        name="mine",
        kind="str",
        default="all",
        doc="which lines are mined for templates",
        choices=("all", "none"),
    ),
    Setting(name="cluster", kind="str", default=None, doc="cluster name where logs do not tell it"),
)
_BY_NAME = {s.name: s for s in SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a value comes from. `kind` is flag, env, project, user, site or default; `place` the file or variable."""

    kind: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.place}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Values in force, one field per `SETTINGS` entry of the same name."""

    store: Path
    rules: tuple[Path, ...]
    policy: Path | None
    engine: str
    redact: str
    format: str
    jobs: int
    poll_s: float
    mine: str
    cluster: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Settings, and the origin of each by name."""

    settings: Settings
    origins: Mapping[str, Origin]


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    site: Path = SITE_FILE,
) -> Loaded:
    """Read every layer and let the nearest word win.

    Args:
        flags: values of the command line by setting name; None means "not given".
        env: environment; the process's own where None.
        folder: where the search for a project file begins; the working folder where None.
        site: the site's file.

    Raises:
        ConfigError: a file is no TOML, a key is unknown, a value is not what it must be.
    """
    env = os.environ if env is None else env
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for s in SETTINGS:
        values[s.name], origins[s.name] = _checked(s, s.default, "default", None), Origin(kind="default")
    for kind, path, table in _files(env, folder or Path.cwd(), site):
        for name, value in table.items():
            setting = _known(name, str(path))
            values[name] = _checked(setting, value, f"{path}: {name}", path.parent)
            origins[name] = Origin(kind=kind, place=str(path))
    for variable in sorted(env):
        name = variable.removeprefix("RECOVERY_").lower()
        if variable.startswith("RECOVERY_") and name in _BY_NAME and env[variable] != "":
            values[name] = _checked(_BY_NAME[name], _from_text(_BY_NAME[name], env[variable]), variable, None)
            origins[name] = Origin(kind="env", place=variable)
    for name, value in (flags or {}).items():
        if value is not None:
            flag = "--" + name.replace("_", "-")
            values[name] = _checked(_known(name, "command line"), value, flag, None)
            origins[name] = Origin(kind="flag", place=flag)
    return Loaded(settings=Settings(**values), origins=origins)


def settings(**flags: Any) -> Settings:
    """The values in force in this process; `flags` are the command line's, None means "not given".

    Raises:
        ConfigError: see `load_settings`.
    """
    return load_settings(flags=flags).settings


def _files(env: Mapping[str, str], folder: Path, site: Path) -> list[tuple[str, Path, Mapping[str, Any]]]:
    """Files that are there, farthest first."""
    found: list[tuple[str, Path, Mapping[str, Any]]] = []
    home = env.get("XDG_CONFIG_HOME") or (str(Path(env["HOME"]) / ".config") if env.get("HOME") else None)
    user = Path(home) / "recovery" / "config.toml" if home else None
    for kind, path in (("site", site), ("user", user)):
        if path is not None and path.is_file():
            found.append((kind, path, _toml(path)))
    for up in (folder, *folder.resolve().parents):
        own, shared = up / "recovery.toml", up / "pyproject.toml"
        if own.is_file():
            found.append(("project", own, _toml(own)))
            break
        if shared.is_file():
            table = _toml(shared).get("tool", {}).get("recovery")
            if table is not None:
                found.append(("project", shared, table))
                break
    return found


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path), mend="write it as TOML: name = value") from error


def _known(name: str, where: str) -> Setting:
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    mend = f"did you mean {near[0]!r}?" if near else "known are " + ", ".join(_BY_NAME)
    raise ConfigError(f"unknown setting {name!r}", where=where, mend=mend)


def _from_text(setting: Setting, text: str) -> Any:
    """An environment variable's text as TOML would have it; text that is no number is left for the check to refuse."""
    if setting.kind == "paths":
        return [p for p in text.split(os.pathsep) if p]
    if setting.kind in ("int", "float"):
        try:
            return int(text) if setting.kind == "int" else float(text)
        except ValueError:
            return text
    return text


def _checked(setting: Setting, value: Any, where: str, base: Path | None) -> Any:
    """The value in its Python type; relative paths in a file are relative to that file."""
    if value is None and setting.default is None:
        return None
    kind = setting.kind
    if kind == "path" and isinstance(value, str | Path):
        return _path(value, base)
    if kind == "paths" and isinstance(value, list | tuple) and all(isinstance(v, str | Path) for v in value):
        return tuple(_path(v, base) for v in value)
    if kind == "str" and isinstance(value, str):
        if setting.choices and value not in setting.choices:
            raise ConfigError(f"{value!r} is none of its values", where=where, mend="use " + ", ".join(setting.choices))
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (kind == "int" and number and isinstance(value, int)) or (kind == "float" and number):
        if setting.least is not None and not value >= setting.least:
            raise ConfigError(f"{value} is too small", where=where, mend=f"use {setting.least:g} or more")
        return int(value) if kind == "int" else float(value)
    what = {"path": "a path", "paths": "a list of paths", "str": "text", "int": "a whole number", "float": "a number"}
    raise ConfigError(f"{value!r} is not {what[kind]}", where=where, mend=f"{setting.name}: {setting.doc}")


def _path(value: str | Path, base: Path | None) -> Path:
    path = Path(value).expanduser()
    return base / path if base is not None and not path.is_absolute() else path


def plain(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Name -> value and origin, as JSON values, in the order of `SETTINGS`."""

    def told(value: Any) -> Any:
        if isinstance(value, tuple):
            return [str(v) for v in value]
        return str(value) if isinstance(value, Path) else value

    return {
        f.name: {"value": told(getattr(loaded.settings, f.name)), "origin": str(loaded.origins[f.name])}
        for f in fields(Settings)
    }


def schema() -> dict[str, Any]:
    """JSON schema of a configuration file."""
    kinds: dict[str, dict[str, Any]] = {
        "str": {"type": "string"},
        "path": {"type": "string"},
        "paths": {"type": "array", "items": {"type": "string"}},
        "int": {"type": "integer"},
        "float": {"type": "number"},
    }
    properties = {}
    for s in SETTINGS:
        one = {"description": s.doc, **kinds[s.kind]}
        if s.choices:
            one["enum"] = list(s.choices)
        if s.least is not None:
            one["minimum"] = s.least
        if s.default is not None:
            one["default"] = list(s.default) if isinstance(s.default, tuple) else s.default
        properties[s.name] = one
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA_ID,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
