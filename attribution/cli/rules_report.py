"""Texts of `recovery rules`: pure functions from results to what is printed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from attribution.model import Diagnosis
from attribution.signatures import RuleSet, Signature
from attribution.signatures.coverage import Cell, Judged
from attribution.signatures.findings import CODES, Finding

if TYPE_CHECKING:
    from attribution.cli.rules_run import Change


def _json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"


def coverage_report(cells: Sequence[Cell], judged: Sequence[Judged], output: str, list_missing: int) -> str:
    """The coverage table as text (``rich``) or as one JSON document (``json``), with a list of what is missing."""
    missing: dict[tuple[str, int, str], list[Judged]] = defaultdict(list)
    for j in judged:
        if not j.covered and not j.waived:
            missing[(j.row.file, j.row.tier, j.row.group)].append(j)
    if output == "json":
        return _coverage_json(cells, missing, list_missing)
    lines = [f"{'file':<12} tier {'group':<9}{'rows':>7}{'covered':>9}{'share':>8}{'target':>8}  waived     raw"]
    for c in cells:
        target = f"{c.target:.0%}" if c.target is not None else "-"
        mark = "" if c.met else "  MISSED"
        lines.append(
            f"{c.file:<12} {c.tier:>4} {c.group:<9}{c.rows:>7}{c.covered:>9}{c.share:>8.1%}{target:>8}"
            f"{c.waived:>8}{c.raw_share:>8.1%}{mark}"
        )
    for (file, tier, group), some in sorted(missing.items()):
        for j in some[:list_missing]:
            heard = f" [{', '.join(j.signatures)}]" if j.signatures else ""
            lines.append(f"{file} {tier} {group} {j.row.id}: {j.why}{heard}\n    {j.row.example[:240]!r}")
    return "\n".join(lines) + "\n"


def _coverage_json(cells: Sequence[Cell], missing: dict[tuple[str, int, str], list[Judged]], list_missing: int) -> str:
    plain = [
        {
            "file": c.file,
            "tier": c.tier,
            "group": c.group,
            "rows": c.rows,
            "covered": c.covered,
            "waived": c.waived,
            "share": round(c.share, 5),
            "raw_share": round(c.raw_share, 5),
            "target": c.target,
            "met": c.met,
            "missing": [
                {
                    "id": j.row.id,
                    "why": j.why,
                    "signatures": j.signatures,
                    "cause": j.row.cause,
                    "example": j.row.example,
                }
                for j in missing[(c.file, c.tier, c.group)][: list_missing or None]
            ],
        }
        for c in cells
    ]
    return _json({"schema": "recovery.coverage/1", "cells": plain})


def findings_report(findings: Sequence[Finding], output: str) -> str:
    """Findings as text, ``json``, ``sarif`` 2.1.0 or ``github`` workflow commands."""
    if output == "json":
        return _json({"schema": "recovery.findings/1", "findings": [_plain(f) for f in findings]})
    if output == "sarif":
        return _json(_sarif(findings))
    if output == "github":
        return "".join(
            f"::error file={f.path},line={f.line},title={f.code} {f.slug}::{_escaped(_message(f))}\n" for f in findings
        )
    return "".join(f"{f}\n" for f in findings)


def _message(finding: Finding) -> str:
    return f"{finding.signature}: {finding.what}" if finding.signature else finding.what


def _escaped(text: str) -> str:
    """Data of a workflow command: log text must not end the command and begin another."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _plain(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "slug": finding.slug,
        "path": finding.path,
        "line": finding.line,
        "signature": finding.signature,
        "what": finding.what,
        "mend": finding.mend,
    }


def _sarif(findings: Sequence[Finding]) -> dict[str, object]:
    rules = [
        {"id": code, "name": slug, "shortDescription": {"text": slug}, "help": {"text": mend}}
        for code, (slug, mend) in sorted(CODES.items())
    ]
    results = [
        {
            "ruleId": f.code,
            "level": "error",
            "message": {"text": _message(f)},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": f.path}, "region": {"startLine": f.line}}}],
        }
        for f in findings
    ]
    driver = {"name": "recovery rules check", "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def rules_report(signatures: Sequence[Signature], output: str) -> str:
    """A list of rules."""
    if output == "json":
        return _json(
            [
                {
                    "id": s.id,
                    "title": s.title,
                    "class": s.failure_class,
                    "role": s.role.value,
                    "status": s.status.value,
                    "specificity": s.specificity,
                    "marks": sorted(s.marks),
                    "path": s.path,
                    "line": s.line,
                    "shadow": s.shadow,
                }
                for s in signatures
            ]
        )
    width = max((len(s.id) for s in signatures), default=0)
    return "".join(
        f"{s.id:<{width}}  {s.role.value:<12} {s.specificity:>3}  {s.failure_class or '-':<32} {s.title}\n"
        for s in signatures
    )


def classes_report(rules: RuleSet, output: str) -> str:
    """The failure classes."""
    if output == "json":
        return _json(
            [
                {"class": c.name, "domain": c.domain.value, "action": c.action.value, "means": c.means}
                for c in rules.taxonomy.values()
            ]
        )
    return "".join(
        f"{c.name:<38} {c.domain.value:<15} {c.action.value:<18} {c.means}\n" for c in rules.taxonomy.values()
    )


def changes_report(changes: Sequence[Change], attempts: int, output: str) -> str:
    """Verdicts that a change of rules alters."""
    if output == "json":
        return _json(
            [
                {
                    "kind": c.kind,
                    "attempt": c.key,
                    "files": list(c.files),
                    "old": _verdict(c.old),
                    "new": _verdict(c.new),
                }
                for c in changes
            ]
        )
    lines = []
    for kind in ("newly broken", "newly caught", "changed"):
        for c in (c for c in changes if c.kind == kind):
            lines.append(f"{kind}: {c.key} {' '.join(c.files[:3])}")
            lines += [f"    old {_told(c.old)}", f"    new {_told(c.new)}"]
    lines.append(f"{len(changes)} of {attempts} verdicts differ")
    return "\n".join(lines) + "\n"


def _verdict(diagnosis: Diagnosis | None) -> dict[str, object] | None:
    if diagnosis is None:
        return None
    root = diagnosis.root
    return {
        "outcome": diagnosis.outcome.value,
        "class": diagnosis.failure_class,
        "root": {"path": root.path, "line": root.line, "role": root.role.value} if root else None,
    }


def _told(diagnosis: Diagnosis | None) -> str:
    if diagnosis is None:
        return "no such attempt"
    root = diagnosis.root
    place = f"{root.path}:{root.line} ({root.role}) {root.text[:120]!r}" if root else "no root"
    return f"{diagnosis.outcome} {diagnosis.failure_class or '-'} {place}"
