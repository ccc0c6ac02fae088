"""Texts of `recovery rules`: pure functions from results to what is printed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from attribution.signatures.coverage import Cell, Judged


def coverage_report(cells: Sequence[Cell], judged: Sequence[Judged], output: str, list_missing: int) -> str:
    """The coverage table as text (``rich``) or as one JSON document (``json``), with a list of what is missing."""
    missing: dict[tuple[str, int, str], list[Judged]] = defaultdict(list)
    for j in judged:
        if not j.covered and not j.waived:
            missing[(j.row.file, j.row.tier, j.row.group)].append(j)
    if output == "json":
        return _coverage_json(cells, missing, list_missing)
    lines = [f"{'file':<12} tier {'group':<9}{'rows':>7}{'covered':>9}{'share':>8}{'target':>8}  waived"]
    for c in cells:
        target = f"{c.target:.0%}" if c.target is not None else "-"
        mark = "" if c.met else "  MISSED"
        lines.append(
            f"{c.file:<12} {c.tier:>4} {c.group:<9}{c.rows:>7}{c.covered:>9}{c.share:>8.1%}{target:>8}"
            f"{c.waived:>8}{mark}"
        )
    for (file, tier, group), some in sorted(missing.items()):
        for j in some[:list_missing]:
            heard = f" [{', '.join(j.signatures)}]" if j.signatures else ""
            lines.append(f"{file} {tier} {group} {j.row.id}: {j.why}{heard}\n    {j.row.example[:240]!r}")
    return "\n".join(lines) + "\n"


def _coverage_json(
    cells: Sequence[Cell], missing: dict[tuple[str, int, str], list[Judged]], list_missing: int
) -> str:
    import orjson

    plain = [
        {
            "file": c.file, "tier": c.tier, "group": c.group, "rows": c.rows, "covered": c.covered,
            "waived": c.waived, "share": round(c.share, 5), "target": c.target, "met": c.met,
            "missing": [
                {"id": j.row.id, "why": j.why, "signatures": j.signatures, "cause": j.row.cause, "example": j.row.example}
                for j in missing[(c.file, c.tier, c.group)][: list_missing or None]
            ],
        }
        for c in cells
    ]
    return orjson.dumps({"schema": "recovery.coverage/1", "cells": plain}, option=orjson.OPT_INDENT_2).decode() + "\n"
