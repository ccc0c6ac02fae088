"""The receipt of a restart: which checkpoint it should have loaded, which it did, and what was lost.

What should be loaded is the newest checkpoint that an earlier attempt of the job saved. What was loaded is what the new
attempt says; where it says nothing, its first step bounds it: a run cannot have loaded a checkpoint beyond the first step
that it prints. A first step no later than that of the job's very first attempt is a start from nothing, and where there
was a checkpoint to load, nobody may have noticed: that is flagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from attribution.policy.past import Record


class Resumed(StrEnum):
    """How a restart went on."""

    NEWEST = "newest"  # from the newest checkpoint, as it should
    OLDER = "older"  # from an older one than it could have
    FROM_ZERO = "from_zero"  # from nothing though there was a checkpoint: a silent restart at step 0
    NOTHING_SAVED = "nothing_saved"  # from nothing, and there was nothing to load
    UNKNOWN = "unknown"  # neither a loaded checkpoint nor steps are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One restart. Steps are None where unknown; `inferred` is set where the first step stands in for what was loaded.

    `steps_redone` are steps that both attempts made, `gpu_hours_redone` what these cost the old attempt by its own mean
    step time; `gpu_hours_lost` adds the old attempt's steps that no later attempt made again yet. `idle_s` is the time
    between the two attempts.
    """

    before: str
    after: str
    resumed: Resumed
    should_step: int | None
    loaded_step: int | None
    inferred: bool
    reached_step: int | None
    steps_redone: int | None
    gpu_hours_redone: float | None
    gpu_hours_lost: float | None
    idle_s: float | None

    @property
    def flagged(self) -> bool:
        """True where somebody should look: work was thrown away that need not have been."""
        return self.resumed in (Resumed.FROM_ZERO, Resumed.OLDER)

    def sentence(self) -> str:
        """The receipt in one line."""
        told = {
            Resumed.NEWEST: f"resumed from checkpoint {self.loaded_step}, the newest",
            Resumed.OLDER: f"resumed from checkpoint {self.loaded_step}, though {self.should_step} was there",
            Resumed.FROM_ZERO: f"SILENT RESTART AT STEP 0, though checkpoint {self.should_step} was there",
            Resumed.NOTHING_SAVED: "began anew: no checkpoint was saved before",
            Resumed.UNKNOWN: "what it resumed from is not known",
        }[self.resumed]
        seen = " (by its first step)" if self.inferred and self.resumed in (Resumed.NEWEST, Resumed.OLDER) else ""
        redone = f"; {self.steps_redone} steps done again" if self.steps_redone is not None else ""
        hours = f", {self.gpu_hours_lost:,.1f} GPU-hours lost" if self.gpu_hours_lost is not None else ""
        idle = f"; {self.idle_s:,.0f} s between the attempts" if self.idle_s is not None else ""
        return f"{self.after}: {told}{seen}{redone}{hours}{idle}"


def _newest(earlier: Sequence[Record]) -> int | None:
    """The newest checkpoint that exists before a restart, as far as the logs tell."""
    seen = [
        s
        for r in earlier
        for s in (r.diagnosis.progress.last_checkpoint_step, r.diagnosis.progress.loaded_checkpoint_step)
        if s is not None and s > 0
    ]
    return max(seen, default=None)


def _step_hours(r: Record) -> float | None:
    """GPU-hours that one step of this attempt took, its start-up spread over them."""
    p = r.diagnosis.progress
    begun = p.loaded_checkpoint_step if p.loaded_checkpoint_step is not None else p.first_step
    if p.last_step is None or begun is None or p.last_step <= begun or r.gpu_hours <= 0:
        return None
    return r.gpu_hours / (p.last_step - begun)


def _resumed(first: Record, after: Record, should: int | None) -> tuple[Resumed, int | None, bool]:
    """How it went on, from which step, and whether that is only inferred."""
    p = after.diagnosis.progress
    loaded = p.loaded_checkpoint_step
    if loaded is not None:
        if should is None:
            return (Resumed.NOTHING_SAVED if loaded <= 0 else Resumed.NEWEST), loaded, False
        verdict = Resumed.FROM_ZERO if loaded <= 0 else Resumed.OLDER if loaded < should else Resumed.NEWEST
        return verdict, loaded, False
    if p.first_step is None:
        return Resumed.UNKNOWN, None, False
    at_start = first.diagnosis.progress.first_step
    anew = p.first_step <= (at_start if at_start is not None else 1)
    if anew:
        return (Resumed.NOTHING_SAVED if should is None else Resumed.FROM_ZERO), 0, True
    if should is None:
        return Resumed.UNKNOWN, None, False
    if p.first_step < should:
        return Resumed.OLDER, p.first_step, True
    return Resumed.NEWEST, should, True


def receipt(earlier: Sequence[Record], after: Record) -> Receipt:
    """The receipt of `after`, given all attempts of its job before it, oldest first.

    Raises:
        ValueError: there is no earlier attempt.
    """
    if not earlier:
        raise ValueError("a receipt needs the attempt that was restarted")
    before = earlier[-1]
    should = _newest(earlier)
    resumed, loaded, inferred = _resumed(earlier[0], after, should)
    reached = max((s for r in earlier if (s := r.diagnosis.progress.last_step) is not None), default=None)
    last = after.diagnosis.progress.last_step
    redone = lost_steps = None
    if reached is not None and loaded is not None:
        lost_steps = max(0, reached - loaded)
        redone = lost_steps if last is None else max(0, min(reached, last) - loaded)
    cost = _step_hours(before)
    idle = None
    if after.attempt.start_time_s is not None and before.attempt.end_time_s is not None:
        idle = max(0.0, after.attempt.start_time_s - before.attempt.end_time_s)
    return Receipt(
        before=before.attempt_id,
        after=after.attempt_id,
        resumed=resumed,
        should_step=should,
        loaded_step=loaded,
        inferred=inferred,
        reached_step=reached,
        steps_redone=redone,
        gpu_hours_redone=redone * cost if redone is not None and cost is not None else None,
        gpu_hours_lost=lost_steps * cost if lost_steps is not None and cost is not None else None,
        idle_s=idle,
    )


def receipts(chain: Sequence[Record]) -> tuple[Receipt, ...]:
    """Receipts of all restarts of one chain (`attribution.policy.past.chains`)."""
    return tuple(receipt(chain[:i], chain[i]) for i in range(1, len(chain)))
