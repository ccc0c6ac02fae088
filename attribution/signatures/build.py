"""The merged plain document -> frozen `RuleSet`. Pure and fast: no YAML, no validation, no regex compilation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attribution.model import Action, Domain, Role, RuleStatus, Source
from attribution.signatures.relax import Relaxed
from attribution.signatures.rules import (
    ClassInfo,
    Correlation,
    Example,
    Explains,
    Pattern,
    RuleSet,
    Signature,
    Table,
    TableRow,
)

#: Keys of a table row that mean something to the engine; all others are facts for people and pages.
_ROW_KEYS = frozenset({"class", "role", "title", "specificity", "action", "marks", "path", "line"})


def _row(plain: Mapping[str, Any]) -> TableRow:
    return TableRow(
        failure_class=plain.get("class"),
        has_class="class" in plain,
        role=Role(plain["role"]) if "role" in plain else None,
        title=plain.get("title"),
        specificity=plain.get("specificity"),
        action=plain.get("action"),
        marks=frozenset(plain["marks"]) if "marks" in plain else None,
        facts={k: str(v) for k, v in plain.items() if k not in _ROW_KEYS},
    )


def _examples(plain: Sequence[Mapping[str, Any]]) -> tuple[Example, ...]:
    return tuple(
        Example(
            text=e["text"],
            fields=e.get("fields") or {},
            frames=tuple(e.get("frames") or ()),
            source=Source(e["source"]) if "source" in e else None,
            spoken_by=e.get("spoken_by"),
        )
        for e in plain
    )


def _patterns(plain: Sequence[str], ignore_case: bool) -> tuple[Pattern, ...]:
    return tuple(Pattern(p, ignore_case=ignore_case) for p in plain)


def _relaxed(plain: Mapping[str, Any]) -> Relaxed:
    return Relaxed(
        expression=plain["expression"],
        literals=tuple(x.encode("latin-1") for x in plain["literals"]),
        hazards=tuple(plain["hazards"]),
        ignore_case=plain["ignore_case"],
        empty=False,
        repeats=plain["repeats"],
    )


def _signature(index: int, plain: Mapping[str, Any]) -> Signature:
    match = plain["match"]
    ignore_case = bool(match.get("ignore_case"))
    table = plain.get("table") or {}
    return Signature(
        index=index,
        id=plain["id"],
        title=plain["title"],
        failure_class=plain.get("class"),
        role=Role(plain["role"]),
        status=RuleStatus(plain.get("status", "experimental")),
        specificity=plain.get("specificity", 50),
        subject=plain.get("subject", "job"),
        sources=frozenset(Source(s) for s in plain.get("sources") or ("job_log",)),
        any=tuple(
            Pattern(p, ignore_case=ignore_case, relaxed=_relaxed(r))
            for p, r in zip(match["any"], plain["relaxed"], strict=True)
        ),
        unless=_patterns(match.get("unless") or (), ignore_case),
        frames=_patterns(match.get("frames") or (), ignore_case),
        table=table.get("name"),
        table_key=table.get("key"),
        marks=frozenset(plain.get("marks") or ()),
        explains=tuple(
            Explains(classes=tuple(e["classes"]), scope=e.get("scope", "attempt"), within_s=e.get("within_s"))
            for e in plain.get("explains") or ()
        ),
        overlaps=tuple(plain.get("overlaps") or ()),
        allow=plain.get("allow") or {},
        limits=plain.get("limits", ""),
        fix=plain.get("fix", ""),
        references=tuple(plain.get("references") or ()),
        examples=_examples(plain["examples"]),
        counterexamples=_examples(plain.get("counterexamples") or ()),
        shadow=bool(plain.get("shadow")),
        path=plain["path"],
        line=plain["line"],
    )


def _correlation(plain: Mapping[str, Any]) -> Correlation:
    return Correlation(
        id=plain["id"],
        title=plain["title"],
        kind=plain["kind"],
        of=tuple(plain["of"]),
        failure_class=plain["class"],
        then=tuple(plain.get("then") or ()),
        fields={k: tuple(v) for k, v in (plain.get("fields") or {}).items()},
        unit=plain.get("unit", "attempt"),
        at_least=plain.get("at_least", 1),
        within_s=plain.get("within_s"),
        apart_s=plain.get("apart_s", 0.0),
        role=Role(plain.get("role", "root")),
        specificity=plain.get("specificity", 70),
        limits=plain.get("limits", ""),
        fix=plain.get("fix", ""),
        references=tuple(plain.get("references") or ()),
        path=plain["path"],
        line=plain["line"],
    )


def build(
    plain: Mapping[str, Any], folders: Sequence[Path], lines: Mapping[str, Mapping[str, int]] | None = None
) -> RuleSet:
    """Build the rule set of a merged document. `lines` is empty for a document that came from the cache."""
    tables = {
        name: Table(
            name=name,
            source=t["source"],
            date=t["date"],
            rows={key: _row(row) for key, row in t["rows"].items()},
            origin=t["path"],
        )
        for name, t in plain["tables"].items()
    }
    taxonomy = {
        name: ClassInfo(
            name=name,
            domain=Domain(c["domain"]),
            action=Action(c["action"]),
            means=c["means"],
            alias=tuple(c["alias"]),
        )
        for name, c in plain["taxonomy"].items()
    }
    return RuleSet(
        signatures=tuple(_signature(i, s) for i, s in enumerate(plain["signatures"])),
        tables=tables,
        taxonomy=taxonomy,
        digest=plain["digest"],
        correlations=tuple(_correlation(c) for c in plain["correlations"]),
        folders=tuple(str(f) for f in folders),
        lines=lines or {},
    )
