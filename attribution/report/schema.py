"""JSON schema of the document ``recovery.diagnosis/1``, for those who read it with a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attribution.model import Action, Domain, Outcome, Role, Source, Status
from attribution.report.json import SCHEMA

_TEXT: dict[str, Any] = {"type": "string"}
_TEXT_OR_NULL: dict[str, Any] = {"type": ["string", "null"]}
_WHOLE: dict[str, Any] = {"type": "integer"}
_WHOLE_OR_NULL: dict[str, Any] = {"type": ["integer", "null"]}
_NUMBER_OR_NULL: dict[str, Any] = {"type": ["number", "null"]}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_SHARE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}


def _one_of(values: Iterable[str]) -> dict[str, Any]:
    return {"type": "string", "enum": [str(v) for v in values]}


def _object(properties: dict[str, Any], *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object; documents may grow keys, so others than these are allowed."""
    return {"type": "object", "properties": properties, "required": [k for k in properties if k not in optional]}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _one_or_many(kinds: list[str]) -> dict[str, Any]:
    """Null for nobody, the value for one, a list for several."""
    return {"anyOf": [{"type": [*kinds, "null"]}, {"type": "array", "items": {"type": kinds}, "minItems": 2}]}


def diagnosis_schema() -> dict[str, Any]:
    """The schema (JSON Schema 2020-12). Units stand last in names; times are seconds since the epoch."""
    item = _object({
        "signature": _TEXT, "role": _one_of(Role), "path": _TEXT, "line": {"type": "integer", "minimum": 0},
        "offset": {"type": "integer", "minimum": 0}, "text": _TEXT, "count": {"type": "integer", "minimum": 1},
        "rank": _WHOLE_OR_NULL, "host": _TEXT_OR_NULL, "source": _one_of(Source),
    })  # fmt: skip
    exclusion = _object({
        "node": _TEXT, "because": _TEXT, "evidence": _TEXTS, "until_s": _NUMBER_OR_NULL, "price": _NUMBER_OR_NULL,
    })  # fmt: skip
    attempt = _object({
        "id": _TEXT, "cluster": _TEXT_OR_NULL, "job_id": _TEXT, "restart": {"type": "integer", "minimum": 0},
        "submit_time": _WHOLE_OR_NULL, "name": _TEXT_OR_NULL, "partition": _TEXT_OR_NULL, "state": _TEXT_OR_NULL,
        "nodes": _TEXTS, "n_ranks": _WHOLE_OR_NULL, "files": _TEXTS, "size_bytes": _WHOLE, "n_lines": _WHOLE,
        "start_time_s": _NUMBER_OR_NULL, "end_time_s": _NUMBER_OR_NULL,
    })  # fmt: skip
    advice = _object({
        "id": _TEXT, "generation": {"type": "integer", "minimum": 1}, "action": _one_of(Action), "exclude_nodes": _TEXTS,
        "exclude": {"type": "array", "items": exclusion}, "drain": {"type": "array", "items": exclusion},
        "reason_code": _TEXT, "reason": _TEXT, "fix": _TEXT, "because": _TEXTS, "limits": _TEXTS, "delay_s": _WHOLE,
        "issued_at_s": _NUMBER_OR_NULL, "valid_until_s": _NUMBER_OR_NULL, "policy": _TEXT,
        "commands": {"type": "array", "items": _TEXTS},
    })  # fmt: skip
    progress = _object({
        "dialect": _TEXT_OR_NULL, "first_step": _WHOLE_OR_NULL, "last_step": _WHOLE_OR_NULL, "total_steps": _WHOLE_OR_NULL,
        "last_loss": _NUMBER_OR_NULL, "last_checkpoint_step": _WHOLE_OR_NULL, "loaded_checkpoint_step": _WHOLE_OR_NULL,
        "checkpoints_saved": _WHOLE,
    })  # fmt: skip
    culprit = _object({
        "node": _one_or_many(["string"]), "rank": _one_or_many(["integer"]), "gpu": _one_or_many(["integer", "string"]),
        "because": _TEXT_OR_NULL,
    })  # fmt: skip
    runner_up = _object({"class": _TEXT, "confidence": _SHARE, "flips_if": _TEXT_OR_NULL})
    digests = _object({"rules": _TEXT, "model": _TEXT_OR_NULL, "engine": _TEXT, "policy": _TEXT_OR_NULL})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        **_object({
            "schema": {"const": SCHEMA}, "attempt": attempt, "outcome": _one_of(Outcome), "class": _TEXT_OR_NULL,
            "family": _TEXT_OR_NULL, "domain": _one_of(Domain), "status": _one_of(Status), "confidence": _SHARE,
            "decided_by": _TEXT, "root": _or_null(item), "culprit": culprit, "evidence": {"type": "array", "items": item},
            "runner_up": _or_null(runner_up), "missing": _TEXTS, "because": _TEXTS, "signals": _TEXTS,
            "fingerprint": _TEXT_OR_NULL, "entity": _TEXT_OR_NULL, "progress": progress, "advice": _or_null(advice),
            "digests": digests,
        }),
    }  # fmt: skip
