"""Rule folders -> `RuleSet`.

A folder holds ``taxonomy.yaml``, ``signatures/**/*.yaml``, ``tables/*.yaml`` and ``correlation/*.yaml``; an overlay may
put its rule files straight into the folder and switch rules of earlier folders in ``overrides.yaml``. Later folders
win: signatures and correlations by id as a whole, table rows by key, classes by name.

The validated content is cached as JSON under a key of every byte read, so that a second start parses no YAML.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from attribution.model import RuleError
from attribution.resources import read_cache, write_cache
from attribution.signatures.build import build
from attribution.signatures.findings import Finding, RulesError
from attribution.signatures.rules import RuleSet

#: Raised whenever the cached form or the relaxing of patterns changes.
_CACHE_VERSION = 3
#: Files of a folder's top level that are no rule files.
_OTHER = frozenset({"taxonomy.yaml", "causality.yaml", "overrides.yaml", "waivers.yaml"})


def rule_files(folder: Path) -> list[Path]:
    """Rule files of one folder, in a fixed order.

    Raises:
        RuleError: the folder does not exist.
    """
    if not folder.is_dir():
        raise RuleError("no such folder of rules", where=str(folder), mend="check the path in your configuration")
    found = [folder / name for name in ("taxonomy.yaml", "overrides.yaml") if (folder / name).is_file()]
    found += sorted(p for p in folder.glob("*.yaml") if p.name not in _OTHER)
    for name in ("signatures", "tables", "correlation"):
        found += sorted((folder / name).rglob("*.yaml"))
    return found


def _read(folders: Sequence[Path]) -> list[tuple[int, Path, bytes]]:
    out: list[tuple[int, Path, bytes]] = []
    for layer, folder in enumerate(folders):
        for path in rule_files(folder):
            try:
                out.append((layer, path, path.read_bytes()))
            except OSError as error:
                raise RuleError(str(error.strerror), where=str(path), mend="make the file readable") from error
    return out


def _key(files: Sequence[tuple[int, Path, bytes]]) -> str:
    digest = hashlib.sha256(f"rules/{_CACHE_VERSION}".encode())
    for layer, path, data in files:
        digest.update(f"\0{layer}\0{path}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def load(folders: Sequence[Path], *, cache: bool = True) -> RuleSet:
    """Load packaged rules and overlays, later folders over earlier ones.

    Args:
        folders: rule folders, the packaged one first.
        cache: use and fill the user's cache; without it every field's line is known (`RuleSet.lines`).

    Raises:
        RulesError: everything that is wrong with any of the files, each with file and line.
        RuleError: a folder or file cannot be read.
    """
    files = _read(folders)
    name = f"rules-{_key(files)[:32]}.json"
    if cache:
        stored = read_cache(name)
        if stored is not None:
            try:
                return build(orjson.loads(stored), folders)
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                pass  # a damaged entry is written anew below
    plain, lines, findings = merge_files(files)
    if findings:
        raise RulesError(findings)
    if cache:
        write_cache(name, orjson.dumps(plain))
    return build(plain, folders, lines)


def examine(folders: Sequence[Path]) -> tuple[RuleSet, list[Finding]]:
    """The rule set of whatever is sound, with every field's line, and what is wrong with the rest.

    Raises:
        RuleError: a folder or file cannot be read.
    """
    plain, lines, findings = merge_files(_read(folders))
    return build(plain, folders, lines), sorted(findings, key=lambda f: f.order)


def merge_files(
    files: Sequence[tuple[int, Path, bytes]],
) -> tuple[dict[str, Any], dict[str, dict[str, int]], list[Finding]]:
    """Parse, validate and merge; imported late, since a cached start needs neither YAML nor the schema."""
    from attribution.signatures.merge import merge

    return merge(files)
