"""A policy on history: what it would have advised for every stored failure, and what really happened next.

Every attempt is judged on its own, with the history that it really had: the replay does not imagine the attempts that
another policy would have made. What is known of the future is the next attempt of the same job id, which is a requeue of
the same script. So

* a *stop* (hold, terminate) is wrong where that successor got beyond the old step, and right where it failed and did not;
* a *restart* is right and wrong the other way round;
* an *excluded node* is wrong where the successor got beyond while running on it, right where the successor ran without it
  and got beyond, or ran on it and died of the same root;
* everything else is not judged, and is counted as that. `none` leaves the attempt to the scheduler or to a person and is
  not judged either.

GPU-hours are those of the successor: *saved* by a right stop, *forgone* by a wrong one, *wasted* by a wrong restart.
Caps on exclusions are replayed too, in the order of time: each policy sees the exclusions that it would have made itself.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from attribution.model import Action, Advice
from attribution.policy.advise import EMPTY_HISTORY, advise
from attribution.policy.document import Policy
from attribution.policy.history import Fleet, History
from attribution.policy.past import Became, Record, Successor, chains, histories_of, successor
from attribution.policy.statistics import wilson
from attribution.signatures import ClassInfo

MOST_DIFFERENCES = 20
_STOPS = (Action.HOLD, Action.TERMINATE)
_GOES_ON = (Action.RESTART, Action.RESTART_EXCLUDING)
_PASSED = (Became.PASSED, Became.PASSED_SAME_NODES, Became.PASSED_WITHOUT, Became.PASSED_ELSEWHERE)
_DIED = (Became.SAME_ROOT, Became.OTHER_ROOT)
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`hits` of `trials` with Wilson's 95 % interval."""

    hits: int
    trials: int
    low: float
    high: float

    @classmethod
    def of(cls, hits: int, trials: int) -> Share:
        """A share with its interval."""
        low, high = wilson(hits, trials)
        return cls(hits=hits, trials=trials, low=low, high=high)

    def __str__(self) -> str:
        if not self.trials:
            return "none judged"
        return f"{self.hits} of {self.trials} ({100 * self.low:.1f} to {100 * self.high:.1f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReplay:
    """One row of a policy over the replayed attempts. Hours are GPU-hours of successors."""

    row: str
    attempts: int
    stops: int
    restarts: int
    right: int
    wrong: int
    saved_hours: float
    forgone_hours: float
    wasted_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReplay:
    """One policy over the replayed attempts."""

    policy: str
    digest: str
    actions: tuple[tuple[Action, int], ...]
    wrong_stops: Share
    wrong_restarts: Share
    wrong_exclusions: Share
    saved_hours: float
    forgone_hours: float
    wasted_hours: float
    rows: tuple[RowReplay, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An attempt on which two policies part. `gain_hours` is what the new one is better by (below 0: worse)."""

    attempt_id: str
    failure_class: str | None
    new: Action
    new_row: str
    new_exclude: tuple[str, ...]
    old: Action
    old_row: str
    old_exclude: tuple[str, ...]
    became: Became
    gpu_hours: float
    gain_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The whole backtest. `judged` counts attempts whose successor tells something."""

    attempts: int
    judged: int
    became: tuple[tuple[Became, int], ...]
    new: PolicyReplay
    old: PolicyReplay | None = None
    changed: int = 0
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class _Case:
    record: Record
    history: History
    after: Successor
    after_hours: float
    after_nodes: frozenset[str]


@dataclass(slots=True)
class _RowCount:
    attempts: int = 0
    stops: int = 0
    restarts: int = 0
    right: int = 0
    wrong: int = 0
    saved: float = 0.0
    forgone: float = 0.0
    wasted: float = 0.0


@dataclass(slots=True)
class _Player:
    """One policy on its way through time, with the exclusions that it made."""

    policy: Policy
    taxonomy: Mapping[str, ClassInfo]
    sizes: Mapping[str, int]
    rows: dict[str, _RowCount] = field(default_factory=dict)
    actions: dict[Action, int] = field(default_factory=dict)
    recent: deque[float] = field(default_factory=deque)
    open: list[tuple[float, str]] = field(default_factory=list)
    excluded: dict[str, int] = field(default_factory=dict)
    exclusions: list[int] = field(default_factory=lambda: [0, 0])

    def play(self, case: _Case) -> Advice:
        now = case.record.attempt.end_time_s or 0.0
        got = advise(
            case.record.diagnosis,
            case.record.attempt,
            policy=self.policy,
            taxonomy=self.taxonomy,
            history=case.history,
            fleet=self._fleet(now),
            now_s=now,
        )
        self._note(got, case, now)
        return got

    def _fleet(self, now: float) -> Fleet:
        while self.recent and now - self.recent[0] >= _HOUR:
            self.recent.popleft()
        while self.open and self.open[0][0] <= now:
            _, partition = heapq.heappop(self.open)
            self.excluded[partition] -= 1
        return Fleet(partition_nodes=self.sizes, excluded=self.excluded, exclusions_last_hour=len(self.recent))

    def _note(self, got: Advice, case: _Case, now: float) -> None:
        self.actions[got.action] = self.actions.get(got.action, 0) + 1
        partition = case.record.attempt.partition or ""
        for x in got.exclude:
            self.recent.append(now)
            heapq.heappush(self.open, (x.until_s or now, partition))
            self.excluded[partition] = self.excluded.get(partition, 0) + 1
            verdict = _exclusion(x.node, case)
            if verdict is not None:
                self.exclusions[0] += not verdict
                self.exclusions[1] += 1
        count = self.rows.setdefault(got.reason_code, _RowCount())
        count.attempts += 1
        count.stops += got.action in _STOPS
        count.restarts += got.action in _GOES_ON
        right = _right(got.action, case.after.became)
        if right is None:
            return
        count.right += right
        count.wrong += not right
        if got.action in _STOPS:
            count.saved += case.after_hours if right else 0.0
            count.forgone += 0.0 if right else case.after_hours
        elif not right:
            count.wasted += case.after_hours

    def result(self, cases: Sequence[_Case], given: Sequence[Action]) -> PolicyReplay:
        rows = [self.rows.get(r.id, _RowCount()) for r in self.policy.rows]
        stops = [_right(a, c.after.became) for a, c in zip(given, cases, strict=True) if a in _STOPS]
        goes = [_right(a, c.after.became) for a, c in zip(given, cases, strict=True) if a in _GOES_ON]
        return PolicyReplay(
            policy=self.policy.name,
            digest=self.policy.digest[:16],
            actions=tuple((a, self.actions[a]) for a in Action if a in self.actions),
            wrong_stops=Share.of(stops.count(False), len(stops) - stops.count(None)),
            wrong_restarts=Share.of(goes.count(False), len(goes) - goes.count(None)),
            wrong_exclusions=Share.of(*self.exclusions),
            saved_hours=sum(c.saved for c in rows),
            forgone_hours=sum(c.forgone for c in rows),
            wasted_hours=sum(c.wasted for c in rows),
            rows=tuple(
                RowReplay(
                    row=r.id,
                    attempts=c.attempts,
                    stops=c.stops,
                    restarts=c.restarts,
                    right=c.right,
                    wrong=c.wrong,
                    saved_hours=c.saved,
                    forgone_hours=c.forgone,
                    wasted_hours=c.wasted,
                )
                for r, c in zip(self.policy.rows, rows, strict=True)
            ),
        )


def _right(action: Action, became: Became) -> bool | None:
    if became in _PASSED:
        return True if action in _GOES_ON else False if action in _STOPS else None
    if became in _DIED:
        return False if action in _GOES_ON else True if action in _STOPS else None
    return None


def _exclusion(node: str, case: _Case) -> bool | None:
    if not case.after_nodes:
        return None
    on_it = node in case.after_nodes
    if case.after.became in _PASSED:
        return not on_it
    return True if on_it and case.after.became is Became.SAME_ROOT else None


def _undiagnosed(r: Record) -> bool:
    """True for an attempt that only accounting knows: it tells of its predecessor, and there is nothing to judge it by."""
    return r.diagnosis.failure_class is None and r.diagnosis.decided_by == "accounting"


def _cases(found: Iterable[Record], since_s: float | None) -> list[_Case]:
    out = []
    for chain in chains(found):
        before = histories_of(chain)
        for now, after in zip(chain, (*chain[1:], None), strict=True):
            end = now.attempt.end_time_s
            if not now.failed or _undiagnosed(now) or (since_s is not None and (end is None or end < since_s)):
                continue
            out.append(
                _Case(
                    record=now,
                    history=before.get(now.attempt_id, EMPTY_HISTORY),
                    after=successor(now, after),
                    after_hours=after.gpu_hours if after is not None else 0.0,
                    after_nodes=frozenset(after.attempt.nodes) if after is not None else frozenset(),
                )
            )
    return sorted(out, key=lambda c: (c.record.attempt.end_time_s or 0.0, c.record.attempt_id))


def replay(
    found: Iterable[Record],
    new: Policy,
    *,
    taxonomy: Mapping[str, ClassInfo],
    old: Policy | None = None,
    since_s: float | None = None,
    partition_nodes: Mapping[str, int] | None = None,
) -> Replay:
    """Replay one policy, or one against another, over stored attempts that failed at or after `since_s`.

    Earlier attempts still count as history. `partition_nodes` gives sizes for caps in percent; without, only the absolute
    caps hold.
    """
    cases = _cases(found, since_s)
    sizes = partition_nodes or {}
    player = _Player(policy=new, taxonomy=taxonomy, sizes=sizes)
    given = [player.play(c) for c in cases]
    became: dict[Became, int] = {}
    for c in cases:
        became[c.after.became] = became.get(c.after.became, 0) + 1
    judged = sum(became.get(b, 0) for b in (*_PASSED, *_DIED))
    told = tuple((b, became[b]) for b in Became if b in became)
    result = player.result(cases, [a.action for a in given])
    if old is None:
        return Replay(attempts=len(cases), judged=judged, became=told, new=result)
    other = _Player(policy=old, taxonomy=taxonomy, sizes=sizes)
    before = [other.play(c) for c in cases]
    changed = list(_differences(cases, given, before))
    biggest = heapq.nsmallest(MOST_DIFFERENCES, changed, key=lambda d: (-d.gpu_hours, d.attempt_id))
    return Replay(
        attempts=len(cases),
        judged=judged,
        became=told,
        new=result,
        old=other.result(cases, [a.action for a in before]),
        changed=len(changed),
        differences=tuple(biggest),
    )


def _differences(cases: Sequence[_Case], new: Sequence[Advice], old: Sequence[Advice]) -> Iterator[Difference]:
    for case, a, b in zip(cases, new, old, strict=True):
        if (a.action, a.exclude_nodes) == (b.action, b.exclude_nodes):
            continue
        yield Difference(
            attempt_id=case.record.attempt_id,
            failure_class=case.record.diagnosis.failure_class,
            new=a.action,
            new_row=a.reason_code,
            new_exclude=a.exclude_nodes,
            old=b.action,
            old_row=b.reason_code,
            old_exclude=b.exclude_nodes,
            became=case.after.became,
            gpu_hours=case.after_hours,
            gain_hours=_worth(a.action, case) - _worth(b.action, case),
        )


def _worth(action: Action, case: _Case) -> float:
    """GPU-hours of the successor as this action makes them: useful ones count up, wasted ones down, stops none."""
    if action not in _GOES_ON:
        return 0.0
    right = _right(action, case.after.became)
    return 0.0 if right is None else case.after_hours if right else -case.after_hours
