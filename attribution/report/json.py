"""The document ``recovery.diagnosis/1``: one JSON object per attempt, keys in a fixed order, text redacted and bounded."""

from __future__ import annotations

import math
from typing import Any

from attribution.model import Advice, Attempt, Diagnosis, EvidenceItem, Exclusion, Progress
from attribution.redact import Level, redact

SCHEMA = "recovery.diagnosis/1"


def _one_or_many(values: tuple[Any, ...]) -> Any:
    """None for nobody, the value for one, a list for several: what tools that know one culprit expect."""
    if not values:
        return None
    return values[0] if len(values) == 1 else list(values)


def _gpu(values: tuple[str, ...]) -> Any:
    return _one_or_many(tuple(int(v) if v.isdigit() else v for v in values))


def _finite(value: float | None) -> float | None:
    """JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def _item(item: EvidenceItem, level: Level) -> dict[str, Any]:
    return {
        "signature": item.signature,
        "role": str(item.role),
        "path": item.path,
        "line": item.line,
        "offset": item.offset,
        "text": redact(item.text, level=level),
        "count": item.count,
        "rank": item.rank,
        "host": item.host,
        "source": str(item.source),
    }


def _exclusion(x: Exclusion) -> dict[str, Any]:
    return {"node": x.node, "because": x.because, "evidence": list(x.evidence), "until_s": x.until_s, "price": x.price}


def advice_document(advice: Advice) -> dict[str, Any]:
    """An Advice as JSON values."""
    return {
        "id": advice.id,
        "attempt": str(advice.attempt),
        "generation": advice.generation,
        "action": str(advice.action),
        "exclude_nodes": list(advice.exclude_nodes),
        "exclude": [_exclusion(x) for x in advice.exclude],
        "drain": [_exclusion(x) for x in advice.drain],
        "status": str(advice.status),
        "reason_code": advice.reason_code,
        "reason": advice.reason,
        "fix": advice.fix,
        "because": list(advice.because),
        "limits": list(advice.limits),
        "delay_s": advice.delay_s,
        "issued_at_s": advice.issued_at_s,
        "valid_until_s": advice.valid_until_s,
        "policy": advice.policy,
        "commands": [list(c) for c in advice.commands],
    }


def _progress(p: Progress) -> dict[str, Any]:
    return {
        "dialect": p.dialect,
        "first_step": p.first_step,
        "last_step": p.last_step,
        "total_steps": p.total_steps,
        "last_loss": _finite(p.last_loss),
        "last_checkpoint_step": p.last_checkpoint_step,
        "loaded_checkpoint_step": p.loaded_checkpoint_step,
        "checkpoints_saved": p.checkpoints_saved,
    }


def diagnosis_document(
    attempt: Attempt, diagnosis: Diagnosis, advice: Advice | None = None, *, level: Level = Level.SECRETS
) -> dict[str, Any]:
    """The whole document of one attempt."""
    d = diagnosis
    return {
        "schema": SCHEMA,
        "attempt": {
            "id": str(attempt.key),
            "cluster": attempt.key.cluster,
            "job_id": attempt.key.job_id,
            "restart": attempt.key.restart,
            "submit_time": attempt.key.submit_time_s,
            "name": attempt.name,
            "partition": attempt.partition,
            "state": attempt.state,
            "nodes": list(attempt.nodes),
            "n_ranks": attempt.n_ranks,
            "files": list(attempt.files),
            "size_bytes": attempt.size_bytes,
            "n_lines": attempt.n_lines,
            "start_time_s": attempt.start_time_s if attempt.start_time_s is not None else attempt.first_line_s,
            "end_time_s": attempt.end_time_s if attempt.end_time_s is not None else attempt.last_line_s,
        },
        "outcome": str(d.outcome),
        "class": d.failure_class,
        "family": d.family,
        "domain": str(d.domain),
        "status": str(d.status),
        "confidence": round(d.confidence, 4),
        "decided_by": d.decided_by,
        "root": _item(d.root, level) if d.root else None,
        "culprit": {
            "node": _one_or_many(d.culprit.nodes),
            "rank": _one_or_many(d.culprit.ranks),
            "gpu": _gpu(d.culprit.gpus),
            "because": d.culprit.because,
        },
        "evidence": [_item(e, level) for e in d.evidence],
        "runner_up": (
            {
                "class": d.runner_up.failure_class,
                "confidence": round(d.runner_up.confidence, 4),
                "flips_if": d.runner_up.flips_if,
            }
            if d.runner_up
            else None
        ),
        "missing": list(d.missing),
        "because": [redact(b, level=level) for b in d.because],
        "signals": list(d.signals),
        "fingerprint": d.fingerprint,
        "entity": redact(d.entity, level=level) if d.entity else None,
        "progress": _progress(d.progress),
        "advice": advice_document(advice) if advice else None,
        "digests": {
            "rules": d.digests.rules,
            "model": d.digests.model,
            "engine": d.digests.engine,
            "policy": d.digests.policy,
        },
    }
