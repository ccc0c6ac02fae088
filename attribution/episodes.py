"""Matches of one attempt -> episodes: who started, what followed, what was only taken down.

The loudest error is usually a victim. Three questions are asked of every match that carries a failure class:

1. *Did the attempt survive it?* Progress of the same run behind it says so; then it is an episode of its own, marked
   recovered, and never the answer.
2. *Does another match explain it?* A signature's ``explains`` or `rules/causality.yaml` says which classes are
   consequences of which, with order and distance.
3. *Is it the same trouble told by another rank?* Equal signatures and texts fold into one, the first rank named first.

What is left, in order, initiates. The functions are pure and look at nothing but their arguments.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attribution.causality import Causality, class_matches
from attribution.model import Episode, Evidence, Match, Place, Progress, Role, Source
from attribution.signatures import RuleSet

#: Progress points behind a trouble that prove that the attempt survived it.
SURVIVED_POINTS = 3
#: Lines that two matches may be apart to count as one block of output (a traceback and what its caller prints).
NEAR_LINES = 60
#: Lines between the word that an exception is ignored and the head of its traceback.
HANDLED_LINES = 3
#: Marks of teardown lines that show that something really ended; others (a socket closed at exit) are no trouble alone.
ENDS = frozenset(
    {"rank_exit", "job_cancelled", "sigterm_received", "time_limit", "preempted", "node_fail", "stuck_process"}
)
#: Specificity from which a cascade match may explain a root match.
SURE_EFFECT = 40
#: Roles from which an episode may start, strongest first.
_ROLE_RANK = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CASCADE: 2, Role.TEARDOWN: 3}
_VOLATILE = re.compile(r"0x[0-9a-fA-F]+|\d+")


def ordered(matches: Sequence[Match]) -> tuple[Match, ...]:
    """Matches in the best order known: by time over several files where every file has clocks, else by file and offset.

    Within one file the file's own order is never changed: buffers of one process flush in order, clocks may jump.
    """
    paths = {m.place.path for m in matches}
    if len(paths) <= 1:
        return tuple(sorted(matches, key=lambda m: m.place.offset))
    keyed: list[tuple[float, str, int, Match]] = []
    latest: dict[str, float] = {}
    for m in sorted(matches, key=lambda m: m.place.order):
        known = m.place.time_s
        at = max(known, latest.get(m.place.path, known)) if known is not None else latest.get(m.place.path, 0.0)
        latest[m.place.path] = at
        keyed.append((at, m.place.path, m.place.offset, m))
    if any(latest[p] == 0.0 for p in paths):
        return tuple(m for _, _, _, m in sorted(keyed, key=lambda k: (k[1], k[2])))
    return tuple(m for _, _, _, m in sorted(keyed, key=lambda k: k[:3]))


@dataclass(frozen=True, slots=True)
class _Clock:
    """How far apart two places are, where that can be said."""

    index: dict[int, int]

    def before(self, a: Match, b: Match) -> bool:
        """True where `a` stands before `b` in the attempt's order."""
        return self.index[id(a)] < self.index[id(b)]

    @staticmethod
    def within(a: Match, b: Match, seconds: float | None) -> bool:
        """True unless both carry times of one clock that lie more than `seconds` apart."""
        if seconds is None or a.place.time_s is None or b.place.time_s is None:
            return True
        if a.place.path != b.place.path or a.place.source is not b.place.source:
            seconds += 6 * 3600  # clocks of different writers may differ by a zone
        return abs(a.place.time_s - b.place.time_s) <= seconds


class _Explainer:
    """Answers "may `cause` be why `effect` was printed?"."""

    def __init__(self, rules: RuleSet, causality: Causality, clock: _Clock) -> None:
        self.rules, self.causality, self.clock = rules, causality, clock

    def explains(self, cause: Match, effect: Match) -> bool:
        """True where a signature's own ``explains`` or the class relation says so and order and distance agree."""
        if cause is effect or cause.failure_class is None or effect.failure_class is None:
            return False
        return self._by_signature(cause, effect) or self._by_class(cause, effect)

    def _by_signature(self, cause: Match, effect: Match) -> bool:
        signature = self.rules.by_id.get(cause.signature)
        if signature is None or cause.failure_class == effect.failure_class:
            return False
        return any(
            any(class_matches(p, effect.failure_class or "") for p in e.classes)
            and _same_scope(e.scope, cause.place, effect.place)
            and self.clock.within(cause, effect, e.within_s)
            and (self.clock.before(cause, effect) or not self._mutual(cause, effect))
            for e in signature.explains
        )

    def _mutual(self, cause: Match, effect: Match) -> bool:
        """True where `effect` could as well explain `cause`: then the first one wins."""
        other = self.rules.by_id.get(effect.signature)
        back = other is not None and any(
            class_matches(p, cause.failure_class or "") for e in other.explains for p in e.classes
        )
        return back or self.causality.find(effect.failure_class or "", cause.failure_class or "") is not None

    def _by_class(self, cause: Match, effect: Match) -> bool:
        if cause.role is Role.CASCADE and effect.role is Role.ROOT and cause.specificity < SURE_EFFECT:
            return False  # a vague word for an effect explains no root
        entry = self.causality.find(cause.failure_class or "", effect.failure_class or "")
        if entry is None or not self.clock.within(cause, effect, entry.within_s):
            return False
        return entry.order == "any" or self.clock.before(cause, effect)


def _same_scope(scope: str, a: Place, b: Place) -> bool:
    if scope == "rank":
        return a.rank is not None and a.rank == b.rank
    if scope == "node":
        return a.host is not None and a.host == b.host
    return True


def same_trouble(a: Match, b: Match) -> bool:
    """True where two ranks tell the same: class and signature are equal and so is the text but for numbers."""
    if a.signature != b.signature or a.failure_class != b.failure_class:
        return False
    return _VOLATILE.sub("#", a.text)[:160] == _VOLATILE.sub("#", b.text)[:160]


def survived(match: Match, progress: Progress) -> bool:
    """True where training went on behind `match`: `SURVIVED_POINTS` later points of its file show a higher step.

    Numbers that climb only up to where they were do not count, since a restarted attempt repeats old steps.
    """
    if match.failure_class and match.failure_class.startswith(("numerics.", "straggler.")):
        return False
    end = match.last or match.place
    points = [p for p in progress.points if p.place.path == end.path and p.phase == "train" and p.step is not None]
    if not points:
        return _survived_elsewhere(end, progress)
    offsets = [p.place.offset for p in points]
    cut = bisect_right(offsets, end.offset)
    before = max((p.step or 0 for p in points[:cut]), default=-1)
    return sum(1 for p in points[cut:] if (p.step or 0) > before) >= SURVIVED_POINTS


def _survived_elsewhere(end: Place, progress: Progress) -> bool:
    """As `survived`, for a file without progress of its own, by the clock."""
    if end.time_s is None:
        return False
    later = [p for p in progress.points if p.place.time_s is not None and p.place.time_s > end.time_s + 30]
    return len(later) >= SURVIVED_POINTS


def chain_roots(matches: Sequence[Match]) -> dict[int, Match]:
    """For each exception of a chain that is not its root, the exception that is.

    Python prints the cause first ("direct cause of the following exception") or the exception that was being handled
    ("During handling of the above exception"). A direct cause is nearer to the root than what was raised from it; an
    exception raised while another was handled replaces it only where the first was an ordinary miss (KeyError,
    AttributeError, StopIteration ...) that the program looked up on purpose.
    """
    root_of: dict[int, Match] = {}
    pending: dict[tuple[str, int | None, int | None], tuple[Match, str]] = {}
    last: dict[tuple[str, int | None, int | None], Match] = {}
    for m in matches:
        key = (m.place.path, m.place.rank, m.place.local_rank)
        if "chained_cause" in m.marks or "chained_context" in m.marks:
            if key in last and m.place.line - last[key].place.line <= NEAR_LINES:
                pending[key] = (last[key], "cause" if "chained_cause" in m.marks else "context")
        elif "exception" in m.marks and m.failure_class:
            if key in pending:
                first, kind = pending.pop(key)
                first = root_of.get(id(first), first)
                if kind == "cause" or not _ordinary_miss(first):
                    root_of[id(m)] = first
                else:
                    root_of[id(first)] = m
            last[key] = m
    return root_of


def handled_exceptions(matches: Sequence[Match]) -> frozenset[int]:
    """Exceptions that Python or the program itself says it ignored: the word stands right above their traceback."""
    out: set[int] = set()
    said: dict[tuple[str, int | None], int] = {}
    head: dict[tuple[str, int | None], int] = {}
    for m in matches:
        key = (m.place.path, m.place.rank)
        if "handled" in m.marks:
            said[key] = m.place.line
        if "traceback" in m.marks:
            head[key] = m.place.line
        elif "exception" in m.marks and key in said and key in head and 0 <= head[key] - said[key] <= HANDLED_LINES:
            out.add(id(m))
    return frozenset(out)


_MISSES = (
    "KeyError",
    "AttributeError",
    "StopIteration",
    "IndexError",
    "ModuleNotFoundError",
    "ImportError",
    "ValueError",
)


def _ordinary_miss(match: Match) -> bool:
    return match.text.lstrip().split(":", 1)[0].rsplit(".", 1)[-1].strip() in _MISSES


def build(evidence: Evidence, rules: RuleSet, causality: Causality) -> tuple[Episode, ...]:
    """Episodes of an attempt, the one that the diagnosis rests on first, recovered ones last."""
    matches = ordered(_weighed([m for m in evidence.matches if not m.shadow], rules))
    clock = _Clock({id(m): i for i, m in enumerate(matches)})
    explainer = _Explainer(rules, causality, clock)
    chained = chain_roots(matches)
    troubles = [m for m in matches if m.failure_class is not None and m.role in _ROLE_RANK]
    handled = handled_exceptions(matches)
    over = {id(m) for m in troubles if id(m) in handled or survived(m, evidence.progress)}
    alive = [m for m in troubles if id(m) not in over]
    recovered = [m for m in troubles if id(m) in over]
    # Teardown is what others did to a process: it starts nothing while anything else is there.
    able = [m for m in alive if m.role is not Role.TEARDOWN and id(m) not in chained]
    able = able or [m for m in alive if m.marks & ENDS]
    candidates = _unexplained(able, explainer)
    episodes = _group(candidates, alive, matches, explainer, causality)
    return (*episodes, *_recovered(recovered))


def _weighed(matches: Sequence[Match], rules: RuleSet) -> list[Match]:
    """Matches as much as their source is worth.

    A kernel line in a job's own log is hearsay: a program can print anything, so it confirms and does not begin. Library
    errors that going runs print as well count for nothing where nothing ended.
    """
    ended = any(m.marks & (ENDS | {"exception", "oom_kill"}) for m in matches)
    out = []
    for m in matches:
        if "survivable" in m.marks and not ended:
            continue
        signature = rules.by_id.get(m.signature)
        hearsay = signature is not None and Source.KERNEL_LOG in signature.sources and m.place.source is Source.JOB_LOG
        out.append(replace(m, role=Role.CONFIRMATION) if hearsay and m.role is Role.ROOT else m)
    return out


def _unexplained(troubles: Sequence[Match], explainer: _Explainer) -> list[Match]:
    """Troubles that no other trouble explains; where two explain each other, the first one stands.

    Of one signature the first and last few matches are tried as causes: the others lie between them.
    """
    causes = _representatives(troubles)
    out = [m for m in troubles if not any(explainer.explains(c, m) for c in causes)]
    return out or list(troubles[:1])


def _representatives(troubles: Sequence[Match], edge: int = 8) -> list[Match]:
    by_kind: dict[tuple[str, str | None], list[Match]] = {}
    for m in troubles:
        by_kind.setdefault((m.signature, m.failure_class), []).append(m)
    picked = {id(m) for ms in by_kind.values() for m in (*ms[:edge], *ms[-edge:])}
    return [m for m in troubles if id(m) in picked]


def _group(
    candidates: Sequence[Match],
    alive: Sequence[Match],
    matches: Sequence[Match],
    explainer: _Explainer,
    causality: Causality,
) -> list[Episode]:
    """One episode per distinct unexplained trouble, ranked: role, cause before symptom, first in order."""
    groups: list[list[Match]] = []
    for m in candidates:
        for group in groups:
            if same_trouble(group[0], m) or _one_block(group[-1], m):
                group.append(m)
                break
        else:
            groups.append([m])
    ranked = sorted(
        groups,
        key=lambda g: (
            min(_ROLE_RANK[m.role] for m in g),
            causality.is_symptom(g[0].failure_class),
            explainer.clock.index[id(g[0])],
        ),
    )
    context = tuple(m for m in matches if m.failure_class is None and m.role is Role.CONTEXT)[:50]
    return [_episode(g, alive, explainer, context) for g in ranked]


def _one_block(a: Match, b: Match) -> bool:
    """True for two lines of one class and role that stand together: one writer's word on one trouble."""
    return (
        a.failure_class == b.failure_class
        and a.role is b.role
        and a.place.path == b.place.path
        and abs(a.place.line - b.place.line) <= 3
    )


def _episode(
    group: Sequence[Match], alive: Sequence[Match], explainer: _Explainer, context: tuple[Match, ...]
) -> Episode:
    members = {id(m) for m in group}
    # The reader is shown the line that says most; the group's order still tells who spoke first.
    rest = [m for m in alive if id(m) not in members]
    effects = [m for m in rest if any(explainer.explains(g, m) for g in group)]
    effect_ids = {id(m) for m in effects}
    first: dict[int, Place] = {}
    for m in (*group, *effects):
        if m.place.rank is not None:
            first.setdefault(m.place.rank, m.place)
    because = _reasons(group, effects)
    return Episode(
        initiating=tuple(group),
        cascade=tuple(m for m in effects if m.role not in (Role.TEARDOWN, Role.CONFIRMATION)),
        teardown=tuple(m for m in rest if m.role is Role.TEARDOWN),
        confirmation=tuple(m for m in rest if m.role is Role.CONFIRMATION),
        context=(*context, *(m for m in rest if id(m) not in effect_ids and m.role is Role.ROOT))[:60],
        rank_first=dict(sorted(first.items())),
        because=because,
    )


def _reasons(group: Sequence[Match], effects: Sequence[Match]) -> tuple[str, ...]:
    root = group[0]
    reasons = [f"{root.place.path}:{root.place.line} matches {root.signature} ({root.failure_class})"]
    if len(group) > 1:
        ranks = sorted({m.place.rank for m in group if m.place.rank is not None})
        told = f" on ranks {', '.join(map(str, ranks[:16]))}" if ranks else ""
        reasons.append(f"told {sum(m.count for m in group)} times{told}")
    if effects:
        classes = sorted({m.failure_class for m in effects if m.failure_class})
        reasons.append(f"explains {len(effects)} other matches ({', '.join(classes[:6])})")
    return tuple(reasons)


def _recovered(matches: Sequence[Match]) -> list[Episode]:
    groups: list[list[Match]] = []
    for m in matches:
        for group in groups:
            if same_trouble(group[0], m):
                group.append(m)
                break
        else:
            groups.append([m])
    return [Episode(initiating=tuple(g), recovered=True, because=("training went on behind it",)) for g in groups[:50]]
