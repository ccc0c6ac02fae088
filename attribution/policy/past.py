"""History from stored rows: what was before an attempt, and what became of it afterwards.

The store is not imported here: whoever has one asks it `RECORDS_SQL` and hands the frame over. Attempts of one job are
those of the same cluster and job id, ordered by submit time, restart and start. Slurm reuses job ids, and a requeue may
give a new submit time: a chain ends where the submit time changes and the restart count falls, or stays while the job's
name or user changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any

from attribution.model import Action, Attempt, AttemptKey, Culprit, Diagnosis, Domain, Outcome, Progress, Status
from attribution.policy.history import History, PastAttempt

if TYPE_CHECKING:
    import polars as pl

#: Columns that `records` reads, as a query over a store's tables.
RECORDS_SQL = """
select a.attempt_id, a.cluster, a.job_id, a.submit_time_s, a.restart, a.name, a.user, a.partition, a.nodes, a.gpus, a.n_ranks,
  a.start_time_s, a.end_time_s, a.dialect, a.first_step, a.last_step, a.total_steps, a.last_checkpoint_step,
  a.loaded_checkpoint_step, d.outcome, d.class, d.domain, d.status, d.confidence, d.culprit_nodes, d.fingerprint,
  d.entity, d.signals, v.action
from attempts a join diagnoses d using (attempt_id) left join advice v using (attempt_id)
"""
#: Attempts before that a history keeps: the newest. No limit of a policy reasonably looks further back.
MOST = 1000
_ENDED = (Outcome.FAILED, Outcome.HUNG, Outcome.SLOW, Outcome.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One stored attempt as policy sees it."""

    attempt_id: str
    attempt: Attempt
    diagnosis: Diagnosis
    action: Action | None = None

    @property
    def hours(self) -> float:
        """Hours run; 0 where start or end is unknown."""
        start, end = self.attempt.start_time_s, self.attempt.end_time_s
        return max(0.0, (end - start) / 3600.0) if start is not None and end is not None else 0.0

    @property
    def gpu_hours(self) -> float:
        """Hours times GPUs; ranks stand in for GPUs, then nodes, where those are unknown."""
        a = self.attempt
        return self.hours * (a.gpus or a.n_ranks or len(a.nodes) or 1)

    @property
    def failed(self) -> bool:
        """True where it ended, and neither well nor by a person's wish."""
        return self.diagnosis.outcome in _ENDED

    def past(self) -> PastAttempt:
        """As a part of its successors' history."""
        d, p = self.diagnosis, self.diagnosis.progress
        return PastAttempt(
            restart=self.attempt.key.restart,
            outcome=d.outcome,
            failure_class=d.failure_class,
            fingerprint=d.fingerprint,
            entity=d.entity,
            nodes=self.attempt.nodes,
            culprit_nodes=d.culprit.nodes,
            first_step=p.first_step,
            last_step=p.last_step,
            last_checkpoint_step=p.last_checkpoint_step,
            started_s=self.attempt.start_time_s,
            ended_s=self.attempt.end_time_s,
            action=self.action,
        )


class Became(StrEnum):
    """What the successor of an attempt shows: a weak label, apart from what people say."""

    PASSED_SAME_NODES = "passed_same_nodes"  # it got beyond the old step on the nodes of before
    PASSED_WITHOUT = "passed_without"  # it got beyond only with a suspected node left out
    PASSED_ELSEWHERE = "passed_elsewhere"  # it got beyond on other nodes; none of them was suspected
    PASSED = "passed"  # it got beyond; nodes unknown
    SAME_ROOT = "same_root"  # it died of the same root, no further
    OTHER_ROOT = "other_root"  # it died of another root, no further
    UNKNOWN = "unknown"  # there is a successor, and neither steps nor an end tell
    NONE = "none"  # there is no successor


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """The next attempt of the same job. `left_out` are nodes of the old attempt that it ran without."""

    became: Became
    attempt_id: str | None = None
    passed: bool | None = None
    same_root: bool = False
    same_nodes: bool | None = None
    left_out: tuple[str, ...] = ()


def record(row: Mapping[str, Any]) -> Record:
    """One row of `RECORDS_SQL`."""
    key = AttemptKey(
        job_id=str(row["job_id"]),
        cluster=row["cluster"],
        submit_time_s=row["submit_time_s"],
        restart=row["restart"] or 0,
    )
    attempt = Attempt(
        key=key,
        nodes=tuple(row["nodes"] or ()),
        name=row["name"],
        user=row["user"],
        partition=row["partition"],
        n_ranks=row["n_ranks"],
        gpus=row["gpus"],
        start_time_s=row["start_time_s"],
        end_time_s=row["end_time_s"],
    )
    diagnosis = Diagnosis(
        attempt=key,
        outcome=Outcome(row["outcome"]),
        failure_class=row["class"],
        domain=Domain(row["domain"]),
        status=Status(row["status"]),
        confidence=row["confidence"] or 0.0,
        culprit=Culprit(nodes=tuple(row["culprit_nodes"] or ())),
        signals=tuple(row["signals"] or ()),
        fingerprint=row["fingerprint"],
        entity=row["entity"],
        progress=Progress(
            dialect=row["dialect"],
            first_step=row["first_step"],
            last_step=row["last_step"],
            total_steps=row["total_steps"],
            last_checkpoint_step=row["last_checkpoint_step"],
            loaded_checkpoint_step=row["loaded_checkpoint_step"],
        ),
    )
    action = row["action"]
    return Record(
        attempt_id=row["attempt_id"],
        attempt=attempt,
        diagnosis=diagnosis,
        action=Action(action) if action is not None else None,
    )


def records(frame: pl.DataFrame) -> tuple[Record, ...]:
    """Rows of `RECORDS_SQL` as records, in the order of `chains`."""
    return tuple(r for chain in chains(record(row) for row in frame.iter_rows(named=True)) for r in chain)


def _order(r: Record) -> tuple[int, int, float, str]:
    k = r.attempt.key
    return (k.submit_time_s or 0, k.restart, r.attempt.start_time_s or 0.0, r.attempt_id)


def chains(found: Iterable[Record]) -> tuple[tuple[Record, ...], ...]:
    """Attempts of each job, oldest first; jobs by cluster and id. A reused job id gives two chains."""

    def job(r: Record) -> tuple[str, str]:
        return (r.attempt.key.cluster or "", r.attempt.key.job_id)

    out: list[tuple[Record, ...]] = []
    for _, group in groupby(sorted(found, key=lambda r: (job(r), _order(r))), key=job):
        chain: list[Record] = []
        for r in group:
            if chain and reused(chain[-1].attempt, r.attempt):
                out.append(tuple(chain))
                chain = []
            chain.append(r)
        out.append(tuple(chain))
    return tuple(out)


def reused(before: Attempt, now: Attempt) -> bool:
    """True where an equal job id belongs to another job. Old accounting counts no restarts: equal counts need a proof."""
    if before.key.submit_time_s == now.key.submit_time_s:
        return False
    if now.key.restart == before.key.restart:
        return (before.name, before.user) != (now.name, now.user)
    return now.key.restart < before.key.restart


def before(earlier: Sequence[Record], now: Attempt) -> History:
    """What was before `now`, from records of its job in the order of time. Records of a job that had the same id end it."""
    chain: list[PastAttempt] = []
    after = now
    for r in reversed(earlier[-MOST:]):
        if reused(r.attempt, after):
            break
        chain.append(r.past())
        after = r.attempt
    return History(attempts=tuple(reversed(chain)))


def histories_of(chain: Sequence[Record]) -> dict[str, History]:
    """What was before each attempt of one chain."""
    past = tuple(r.past() for r in chain)
    return {r.attempt_id: History(attempts=past[max(0, i - MOST) : i]) for i, r in enumerate(chain)}


def history_of(rows: pl.DataFrame) -> History:
    """The history that a next attempt has, from rows of one job; only the newest chain of a reused id counts."""
    found = chains(record(row) for row in rows.iter_rows(named=True))
    return History(attempts=tuple(r.past() for r in found[-1][-MOST:])) if found else History()


def histories(frame: pl.DataFrame) -> dict[str, History]:
    """By attempt id, what was before each stored attempt. `frame` holds the rows of `RECORDS_SQL`."""
    found: dict[str, History] = {}
    for chain in chains(record(row) for row in frame.iter_rows(named=True)):
        found.update(histories_of(chain))
    return found


def successor(now: Record, after: Record | None) -> Successor:
    """What the next attempt of the job shows of this one."""
    if after is None:
        return Successor(became=Became.NONE)
    step, later = now.diagnosis.progress.last_step, after.diagnosis.progress.last_step
    passed: bool | None = None
    if after.diagnosis.outcome is Outcome.COMPLETED:
        passed = True
    elif step is not None and later is not None:
        passed = later > step
    mine, theirs = set(now.attempt.nodes), set(after.attempt.nodes)
    left_out = tuple(n for n in now.attempt.nodes if theirs and n not in theirs)
    same_root = (
        after.failed
        and now.diagnosis.fingerprint is not None
        and after.diagnosis.fingerprint == now.diagnosis.fingerprint
    )
    return Successor(
        became=_became(now, after, passed, same_root, left_out),
        attempt_id=after.attempt_id,
        passed=passed,
        same_root=same_root,
        same_nodes=mine == theirs if mine and theirs else None,
        left_out=left_out,
    )


def _became(now: Record, after: Record, passed: bool | None, same_root: bool, left_out: tuple[str, ...]) -> Became:
    if passed:
        if not now.attempt.nodes or not after.attempt.nodes:
            return Became.PASSED
        if set(left_out) & set(now.diagnosis.culprit.nodes):
            return Became.PASSED_WITHOUT
        return Became.PASSED_ELSEWHERE if left_out else Became.PASSED_SAME_NODES
    if same_root:
        return Became.SAME_ROOT
    if after.failed and passed is False:
        return Became.OTHER_ROOT
    return Became.UNKNOWN


def successors(frame: pl.DataFrame) -> dict[str, Successor]:
    """By attempt id, what became of each stored attempt."""
    found: dict[str, Successor] = {}
    for chain in chains(record(row) for row in frame.iter_rows(named=True)):
        for now, after in zip(chain, (*chain[1:], None), strict=True):
            found[now.attempt_id] = successor(now, after)
    return found
