"""Results -> rows of the stored tables, redacted and bounded; rows -> Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from attribution.model import Advice, Attempt, Diagnosis, Episode, Match
from attribution.redact import Level, redact
from attribution.shapes import shape_of
from attribution.tables import TABLES, Column
from attribution.templates import masked

if TYPE_CHECKING:
    from attribution.result import Result
    from attribution.templates import Masked, Template, TemplateCount

MAX_TEXT = 500
#: Matches of one attempt with a failure class that are stored, those of the diagnosis's own episodes first.
MOST_MATCHES = 500
#: Of those without a class (who is who, milestones) the first ones.
MOST_CONTEXT = 100

_KINDS = {
    "str": pa.string(),
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "list[str]": pa.list_(pa.string()),
    "json": pa.string(),
}

Row = dict[str, Any]


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Arrow schema of a stored table."""
    return pa.schema([pa.field(c.name, _KINDS[c.kind]) for c in columns])


def table_of(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of one table as Arrow, in the table's column order; absent values are null."""
    columns = TABLES[name]
    arrays = [pa.array([row.get(c.name) for row in rows], type=_KINDS[c.kind]) for c in columns]
    return pa.Table.from_arrays(arrays, schema=schema_of(columns))


class Rows:
    """Rows of a commit unit, by table."""

    def __init__(self, run_id: str, level: Level = Level.SECRETS) -> None:
        self.run_id, self.level = run_id, level
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        #: Rows of matches by attempt and text, so that they find their template once lines are mined.
        self.texts: dict[str, dict[str, list[Row]]] = {}

    def add(self, result: Result, document: str, advice: str) -> None:
        """Rows of one attempt."""
        who = {"attempt_id": str(result.evidence.attempt.key), "run_id": self.run_id}
        self.tables["attempts"].append({**who, **_attempt(result.evidence.attempt, result.diagnosis)})
        self.tables["diagnoses"].append({**who, **self._diagnosis(result), "document": document})
        self.tables["advice"].append({**who, **_advice(result.advice), "document": advice})
        texts = self.texts.setdefault(who["attempt_id"], {}) if result.masked else {}
        for m in self._kept(result):
            row = {**who, **self._match(m)}
            self.tables["matches"].append(row)
            texts.setdefault(m.text, []).append(row)
        self.tables["episodes"].extend({**who, **row} for row in _episodes(result.episodes))

    def _kept(self, result: Result) -> list[Match]:
        told = {id(m) for e in result.episodes[:4] for m in (*e.initiating, *e.cascade, *e.confirmation, *e.teardown)}
        matches = sorted(result.evidence.matches, key=lambda m: m.place.order)
        failing = [m for m in matches if id(m) in told or m.failure_class is not None]
        failing.sort(key=lambda m: id(m) not in told)
        kept = [
            *failing[:MOST_MATCHES],
            *[m for m in matches if id(m) not in told and m.failure_class is None][:MOST_CONTEXT],
        ]
        return sorted(kept, key=lambda m: m.place.order)

    def place(self, lines: Mapping[str, Mapping[str, Masked]], template_of: Callable[[str], int | None]) -> None:
        """Give matches the template of their line: that of the attempt's shortest masked line that ends like them.

        A match's text has its prefixes off; the mined line still has those that masks do not know.

        Args:
            lines: masked lines by attempt.
            template_of: template of a masked line.
        """
        texts = sorted({text for found in self.texts.values() for text in found})
        ends = dict(zip(texts, masked([shape_of(t.encode("utf-8", "replace")) for t in texts]), strict=True))
        for attempt_id, found in self.texts.items():
            own = sorted(lines[attempt_id], key=len)
            for text, rows in found.items():
                end = ends[text]
                line = end if end in lines[attempt_id] else next((x for x in own if end and x.endswith(end)), None)
                known = template_of(line) if line is not None else None
                for row in rows:
                    row["template_id"] = known

    def counts(self, attempt_id: str, counts: Iterable[TemplateCount]) -> None:
        """Template counts of one attempt."""
        who = {"attempt_id": attempt_id, "run_id": self.run_id}
        self.tables["template_counts"].extend(
            {
                **who,
                "template_id": c.template_id,
                "count": c.count,
                "first_line": c.first_line,
                "first_path": c.path,
            }
            for c in counts
        )

    def template(self, t: Template, signature: str | None, failure_class: str | None) -> None:
        """One version of a template."""
        self.tables["templates"].append(
            {
                "template_id": t.id,
                "template": redact(t.text[:MAX_TEXT], level=self.level),
                "exemplar": redact(t.exemplar[:MAX_TEXT], level=self.level),
                "signature": signature,
                "class": failure_class,
                "class_by": "rule" if signature else None,
                "run_id": self.run_id,
            }
        )

    def _match(self, m: Match) -> Row:
        fields = {
            k: v[:200] if v.isdecimal() else redact(v[:200], level=self.level) for k, v in sorted(m.fields.items())
        }
        return {
            "signature": m.signature,
            "role": str(m.role),
            "class": m.failure_class,
            "path": m.place.path,
            "line": m.place.line,
            "offset": m.place.offset,
            "time_s": m.place.time_s,
            "host": m.place.host,
            "rank": m.place.rank,
            "source": str(m.place.source),
            "text": redact(m.text[:MAX_TEXT], level=self.level),
            "fields": orjson.dumps(fields).decode(),
            "count": m.count,
            "shadow": m.shadow,
        }

    def _diagnosis(self, result: Result) -> Row:
        d = result.diagnosis
        root = d.root
        return {
            "outcome": str(d.outcome),
            "class": d.failure_class,
            "family": d.family,
            "domain": str(d.domain),
            "status": str(d.status),
            "confidence": d.confidence,
            "decided_by": d.decided_by,
            "root_signature": root.signature if root else None,
            "root_path": root.path if root else None,
            "root_line": root.line if root else None,
            "root_text": redact(root.text[:MAX_TEXT], level=self.level) if root else None,
            "root_time_s": _time_of(result),
            "culprit_nodes": list(d.culprit.nodes),
            "culprit_ranks": [str(r) for r in d.culprit.ranks],
            "culprit_gpus": list(d.culprit.gpus),
            "fingerprint": d.fingerprint,
            "entity": redact(d.entity, level=self.level) if d.entity else None,
            "signals": list(d.signals),
        }


def _time_of(result: Result) -> float | None:
    """Time of the root line, where it is a match that has one."""
    root = result.diagnosis.root
    if root is None:
        return None
    same = (m.place for m in result.evidence.matches if (m.place.path, m.place.line) == (root.path, root.line))
    return next((p.time_s for p in same if p.time_s is not None), None)


def _attempt(a: Attempt, d: Diagnosis) -> Row:
    p = d.progress
    return {
        "cluster": a.key.cluster,
        "job_id": a.key.job_id,
        "submit_time_s": a.key.submit_time_s,
        "restart": a.key.restart,
        "name": a.name,
        "user": a.user,
        "partition": a.partition,
        "nodes": list(a.nodes),
        "files": list(a.files),
        "n_ranks": a.n_ranks,
        "gpus": a.gpus,
        "state": a.state,
        "exit_code": a.exit_code,
        "exit_signal": a.exit_signal,
        "time_limit_s": a.time_limit_s,
        "start_time_s": a.start_time_s if a.start_time_s is not None else a.first_line_s,
        "end_time_s": a.end_time_s if a.end_time_s is not None else a.last_line_s,
        "comment": a.comment,
        "size_bytes": a.size_bytes,
        "n_lines": a.n_lines,
        "dialect": p.dialect,
        "first_step": p.first_step,
        "last_step": p.last_step,
        "total_steps": p.total_steps,
        "last_checkpoint_step": p.last_checkpoint_step,
        "loaded_checkpoint_step": p.loaded_checkpoint_step,
    }


def _advice(a: Advice) -> Row:
    return {
        "advice_id": a.id,
        "generation": a.generation,
        "action": str(a.action),
        "exclude_nodes": list(a.exclude_nodes),
        "reason_code": a.reason_code,
        "reason": a.reason,
        "limits": list(a.limits),
        "issued_at_s": a.issued_at_s,
        "valid_until_s": a.valid_until_s,
        "policy": a.policy,
        "policy_digest": a.policy_digest,
    }


def _episodes(episodes: Sequence[Episode]) -> Iterable[Row]:
    for number, e in enumerate(episodes[:16]):
        for role in ("initiating", "cascade", "teardown", "confirmation"):
            matches: tuple[Match, ...] = getattr(e, role)
            for m in matches[:32]:
                yield {
                    "episode": number,
                    "role": role,
                    "signature": m.signature,
                    "class": m.failure_class,
                    "path": m.place.path,
                    "line": m.place.line,
                    "rank": m.place.rank,
                    "recovered": e.recovered,
                }
