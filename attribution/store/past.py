"""What the store knows of a job before the attempts that are analysed now: the history that its Advice stands on."""

from __future__ import annotations

from collections.abc import Sequence

from attribution.policy.history import History
from attribution.policy.past import RECORDS_SQL, Record, before, chains, records
from attribution.result import Result
from attribution.store.store import Store


class Past:
    """Stored attempts by job. Jobs without a scheduler's id have none: files of one name need not be one job."""

    def __init__(self, store: Store) -> None:
        """The jobs that `store` holds now; what is written later is not seen."""
        self._store = store
        self._jobs: frozenset[tuple[str | None, str]] = frozenset()
        if store.manifests():
            self._jobs = frozenset(store.sql("select distinct cluster, job_id from attempts").iter_rows())

    def histories(self, results: Sequence[Result]) -> dict[int, History]:
        """By position in `results`, the attempts of one job, what was before; only where the store adds to it."""
        if not results:
            return {}
        key = results[0].evidence.attempt.key
        if not key.job_id.replace("_", "").isdigit() or (key.cluster, key.job_id) not in self._jobs:
            return {}
        fresh = [r.record() for r in results]
        stored = self._stored(key.cluster, key.job_id, {r.attempt_id for r in fresh})
        if not stored:
            return {}
        found: dict[int, History] = {}
        for chain in chains((*stored, *fresh)):
            for at, r in enumerate(chain):
                if (i := next((i for i, f in enumerate(fresh) if f is r), None)) is not None:
                    found[i] = before(chain[:at], r.attempt)
        return found

    def _stored(self, cluster: str | None, job_id: str, without: set[str]) -> tuple[Record, ...]:
        frame = self._store.sql(
            f"{RECORDS_SQL} where a.job_id = ? and a.cluster is not distinct from ?", (job_id, cluster)
        )
        return tuple(r for r in records(frame) if r.attempt_id not in without)
