"""Lines around the cited ones, read again from the logs where they are still there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attribution.redact import Level, redact

MOST_TEXT = 2000


def around(document: Mapping[str, Any], n: int, *, level: Level = Level.SECRETS) -> dict[str, list[tuple[int, str]]]:
    """(line number, text) of `n` lines before and behind every cited line, by ``path:line``; redacted and bounded.

    `document` is a ``recovery.diagnosis/1``. Files that are gone, or not a regular file, give none.
    """
    cited: dict[str, set[int]] = {}
    for item in (document["root"], *document["evidence"]):
        if item:
            cited.setdefault(item["path"], set()).add(item["line"])
    out: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(cited):
        if not Path(path).is_file():
            continue
        near = {line + d for line in cited[path] for d in range(-n, n + 1)}
        found = {line: redact(text, level=level) for line, text in _lines(path, near)}
        for line in sorted(cited[path]):
            out[f"{path}:{line}"] = [(k, found[k]) for k in range(line - n, line + n + 1) if k in found]
    return out


def _lines(path: str, wanted: set[int]) -> Iterator[tuple[int, str]]:
    from attribution.sources.blocks import ReadReport, read_blocks
    from attribution.sources.discover import discover

    last = max(wanted)
    for job in discover([path], each=True).groups:
        for file in job.files:
            for block in read_blocks(file, report=ReadReport()):
                inside = sorted(n for n in wanted if block.first_line <= n < block.next_line)
                if inside:
                    pieces = bytes(block.data).split(b"\n")
                    for n in inside:
                        yield n, pieces[n - block.first_line][:MOST_TEXT].decode("utf-8", "replace")
                if block.first_line > last:
                    break
