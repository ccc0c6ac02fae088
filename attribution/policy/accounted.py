"""Outcomes from accounting: attempts that the store has no log of, so that the ones before them have a successor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attribution.model import Attempt, AttemptKey, Diagnosis, Domain, Outcome, Status
from attribution.policy.past import Record
from attribution.sources.accounting import AccountingRecord

_OUTCOMES = {
    "COMPLETED": Outcome.COMPLETED,
    "CANCELLED": Outcome.CANCELLED,
    "RUNNING": Outcome.RUNNING,
    "PENDING": Outcome.RUNNING,
    "SUSPENDED": Outcome.RUNNING,
    "COMPLETING": Outcome.RUNNING,
}


def _outcome(state: str | None) -> Outcome:
    word = (state or "").split()[0].split("+")[0].upper() if state else ""
    return _OUTCOMES.get(word, Outcome.FAILED if word else Outcome.UNKNOWN)


def _record(a: AccountingRecord, cluster: str | None) -> Record:
    submit = int(a.submit_s) if a.submit_s is not None else None
    key = AttemptKey(job_id=a.job_id, cluster=cluster, submit_time_s=submit, restart=a.restart or 0)
    attempt = Attempt(
        key=key, nodes=a.nodes, name=a.name, user=a.user, partition=a.partition, gpus=a.gpus, state=a.state,
        start_time_s=a.start_s, end_time_s=a.end_s,
    )  # fmt: skip
    diagnosis = Diagnosis(
        attempt=key,
        outcome=_outcome(a.state),
        failure_class=None,
        domain=Domain.UNKNOWN,
        status=Status.UNKNOWN,
        confidence=0.0,
        decided_by="accounting",
    )
    return Record(attempt_id=str(key), attempt=attempt, diagnosis=diagnosis)


def with_accounting(found: Sequence[Record], accounting: Iterable[AccountingRecord]) -> tuple[Record, ...]:
    """`found`, and an attempt without a diagnosis for each accounting record of the same jobs that it lacks.

    An attempt is known where its job id and restart count are, on the same cluster or on one that either side leaves out.
    Their failures have no root and no steps: as successors they tell what completed and on which nodes, no more.
    """
    known: dict[tuple[str, int], set[str | None]] = {}
    for r in found:
        k = r.attempt.key
        known.setdefault((k.job_id, k.restart), set()).add(k.cluster)
    clusters: dict[str, set[str | None]] = {}
    for r in found:
        clusters.setdefault(r.attempt.key.job_id, set()).add(r.attempt.key.cluster)
    extra = []
    for a in accounting:
        here = clusters.get(a.job_id)
        if here is None or not (None in here or a.cluster is None or a.cluster in here):
            continue
        seen = known.get((a.job_id, a.restart or 0), set())
        if not seen or not (None in seen or a.cluster is None or a.cluster in seen):
            # The chain is found by cluster and id: take the store's word where it has one.
            extra.append(_record(a, next(iter(here)) if len(here) == 1 else a.cluster))
    return (*found, *extra)
