"""YAML with the line of every field, by the fast C parser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from attribution.signatures.findings import Finding

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A YAML document: plain value, and dotted path (``signatures.3.match.any.0``) -> 1-based line."""

    path: str
    value: Any
    lines: dict[str, int]

    def line(self, where: str) -> int:
        """Line of a field, or of the nearest field around it."""
        while where and where not in self.lines:
            where = where.rpartition(".")[0]
        return self.lines.get(where, 1)


def _walk(node: yaml.Node, where: str, lines: dict[str, int], doubled: list[tuple[str, int]]) -> None:
    lines[where] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                doubled.append((name, key.start_mark.line + 1))
            seen.add(name)
            _walk(value, f"{where}.{name}" if where else name, lines, doubled)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _walk(value, f"{where}.{i}" if where else str(i), lines, doubled)


def parse(data: bytes, path: Path) -> tuple[Located | None, list[Finding]]:
    """Read one YAML document with positions. Aliases, several documents and doubled keys are refused as findings."""
    loader = _Loader(data)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, []
        lines: dict[str, int] = {}
        doubled: list[tuple[str, int]] = []
        _walk(node, "", lines, doubled)
        if doubled:
            return None, [
                Finding(code="R007", what=f"the key {name!r} stands twice", path=str(path), line=line)
                for name, line in doubled
            ]
        value = loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        return None, [Finding(code="R007", what=what, path=str(path), line=mark.line + 1 if mark else 1)]
    except (ValueError, RecursionError) as error:
        return None, [Finding(code="R007", what=str(error), path=str(path))]
    finally:
        loader.dispose()
    return Located(path=str(path), value=value, lines=lines), []
