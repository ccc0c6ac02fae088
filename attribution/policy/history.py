"""What was before: earlier attempts of the same job, and what a whole fleet says of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attribution.model import Action, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """One earlier attempt of the same job, as far as policy needs it. Steps are None where no progress was read."""

    restart: int
    outcome: Outcome
    failure_class: str | None = None
    fingerprint: str | None = None
    entity: str | None = None
    nodes: tuple[str, ...] = ()
    culprit_nodes: tuple[str, ...] = ()
    first_step: int | None = None
    last_step: int | None = None
    last_checkpoint_step: int | None = None
    started_s: float | None = None
    ended_s: float | None = None
    action: Action | None = None

    @property
    def progressed(self) -> bool | None:
        """True where steps were made, False where none was, None where no progress format was recognised."""
        if self.last_step is None:
            return None
        return self.first_step is None or self.last_step > self.first_step


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Earlier attempts of the job, oldest first, without the one that is judged."""

    attempts: tuple[PastAttempt, ...] = ()

    def same_root(self, fingerprint: str | None, entity: str | None = None) -> int:
        """How many attempts in an unbroken run up to now failed by the same root (and the same entity, if given)."""
        count = 0
        for a in reversed(self.attempts):
            if fingerprint is None or a.fingerprint != fingerprint or (entity is not None and a.entity != entity):
                break
            count += 1
        return count

    def same_root_without_progress(self, fingerprint: str | None, now_step: int | None) -> int:
        """As `same_root`, counting only attempts that got no further than the one before; unknown progress counts."""
        return self._stuck(now_step, lambda a: fingerprint is not None and a.fingerprint == fingerprint)

    def same_entity_without_progress(self, fingerprint: str | None, entity: str | None, now_step: int | None) -> int:
        """The narrower ledger: the same root at the same entity (checkpoint path, data position); 0 without an entity."""
        if fingerprint is None or entity is None:
            return 0
        return self._stuck(now_step, lambda a: a.fingerprint == fingerprint and a.entity == entity)

    def failures_without_progress(self, now_step: int | None) -> int:
        """Failed attempts in a row, whatever their roots, none of which got further: alternating errors count too."""
        return self._stuck(now_step, lambda a: a.outcome not in (Outcome.COMPLETED, Outcome.CANCELLED))

    def _stuck(self, now_step: int | None, counts: Callable[[PastAttempt], bool]) -> int:
        """Length of the run up to now of attempts that count and got no further than the one before."""
        count = 0
        step = now_step
        for a in reversed(self.attempts):
            if not counts(a) or (step is not None and a.last_step is not None and step > a.last_step):
                break
            count += 1
            step = a.last_step if a.last_step is not None else step
        return count

    def quick_failures(self, within_s: float) -> int:
        """Attempts in a row that lived shorter than `within_s`."""
        count = 0
        for a in reversed(self.attempts):
            if a.started_s is None or a.ended_s is None or a.ended_s - a.started_s >= within_s:
                break
            count += 1
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The cluster as policy may see it. Sizes are numbers of nodes; empty mappings mean unknown.

    `excluded` counts nodes that are kept out by advice now, per partition; `exclusions_last_hour` over all jobs.
    """

    partition_nodes: Mapping[str, int] = field(default_factory=dict)
    excluded: Mapping[str, int] = field(default_factory=dict)
    exclusions_last_hour: int = 0
    lemons: frozenset[str] = frozenset()
