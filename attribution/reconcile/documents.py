"""Advice as JSON documents, and which attempt of the scheduler an Advice without a submit time is about."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from attribution.model import Action, Advice, AttemptKey, Exclusion, PolicyError, Status
from attribution.reconcile.evidence import log_paths
from attribution.reconcile.terms import LedgerEntry
from attribution.schedulers.base import World

_KEY = re.compile(
    r"^(?:(?P<cluster>[^/@]{1,200})/)?(?P<job>[^/@]{1,200}?)(?:@(?P<submit>\d{1,12}))?\.(?P<restart>\d{1,6})$"
)


def parse_key(text: str) -> AttemptKey:
    """The key that `str(AttemptKey)` printed. Raises PolicyError for anything else."""
    found = _KEY.match(text)
    if found is None:
        raise PolicyError(f"{text[:80]!r} is not an attempt")
    submit = found["submit"]
    return AttemptKey(
        job_id=found["job"],
        cluster=found["cluster"],
        submit_time_s=int(submit) if submit else None,
        restart=int(found["restart"]),
    )


def advice_of(document: Mapping[str, Any]) -> Advice:
    """The Advice that `to_plain` wrote. Raises PolicyError naming the field that is wrong."""
    try:
        key = document["attempt"]
        attempt = parse_key(key) if isinstance(key, str) else AttemptKey(**key)
        return Advice(
            id=str(document["id"]),
            attempt=attempt,
            action=Action(document["action"]),
            generation=int(document.get("generation", 1)),
            exclude=_exclusions(document.get("exclude", ())),
            drain=_exclusions(document.get("drain", ())),
            reason_code=str(document.get("reason_code", "")),
            reason=str(document.get("reason", "")),
            fix=str(document.get("fix", "")),
            because=_texts(document, "because"),
            limits=_texts(document, "limits"),
            evidence=_texts(document, "evidence"),
            delay_s=int(document.get("delay_s", 0)),
            issued_at_s=document.get("issued_at_s"),
            valid_until_s=document.get("valid_until_s"),
            policy=str(document.get("policy", "default")),
            policy_digest=str(document.get("policy_digest", "")),
            status=Status(document.get("status", "unknown")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PolicyError(f"not an Advice: {error}") from error


def _texts(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(str(x) for x in document.get(name, ()))


def _exclusions(rows: Iterable[Mapping[str, Any]]) -> tuple[Exclusion, ...]:
    return tuple(
        Exclusion(
            node=str(row["node"]),
            because=str(row.get("because", "")),
            evidence=tuple(str(x) for x in row.get("evidence", ())),
            until_s=row.get("until_s"),
            price=row.get("price"),
        )
        for row in rows
    )


def complete(advice: Advice, files: Sequence[str], world: World, ledger: Iterable[LedgerEntry]) -> Advice:
    """Give an Advice from logs alone the submit time that its identity needs; unchanged where that is not certain.

    What the ledger already calls it stays. Otherwise the job of this id must be in the same attempt, must have started
    before the Advice was given, and must write to a file that was read.
    """
    if advice.attempt.submit_time_s is not None:
        return advice
    for entry in ledger:
        if entry.advice_id == advice.id:
            known = parse_key(entry.attempt)
            if known.submit_time_s is not None and known.job_id == advice.attempt.job_id:
                return replace(advice, attempt=known)
    job = world.jobs.get(advice.attempt.job_id)
    if job is None and advice.attempt.job_id.isdecimal():
        job = world.by_raw_id(int(advice.attempt.job_id))
    if job is None or job.restart != advice.attempt.restart or not job.start_time_s:
        return advice
    if advice.issued_at_s is not None and job.start_time_s > advice.issued_at_s:
        return advice
    logs = {os.path.realpath(path) for path in log_paths(job)}
    if not logs & {os.path.realpath(name) for name in files}:
        return advice
    key = replace(advice.attempt, job_id=job.id, submit_time_s=job.submit_time_s, cluster=job.cluster)
    return replace(advice, attempt=key)
