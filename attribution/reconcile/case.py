"""One Advice with everything that its next step depends on. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from attribution.model import Action, Advice, Disposition
from attribution.reconcile.history import History
from attribution.reconcile.terms import Limits, Reason, Verdict
from attribution.schedulers.base import Hold, Job, StepKind, World

EVIDENCE = StepKind.SAVE_EVIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One Advice with everything that its next step depends on."""

    world: World
    advice: Advice
    history: History
    limits: Limits
    now_s: float
    stops: int = 0
    drains: int = 0
    job: Job | None = None
    parts: tuple[Job, ...] = ()

    def verdict(self, disposition: Disposition, reason: Reason, detail: str = "") -> Verdict:
        """A verdict about this Advice."""
        job = self.job
        left = job is not None and job.hold is Hold.REQUEUE and self.history.requeued
        if disposition is Disposition.ABANDONED and left and job is not None:
            detail = f"{detail}; left held by Recovery: scontrol release {job.id}".lstrip("; ")
        return Verdict(
            advice_id=self.advice.id,
            attempt=str(self.advice.attempt),
            generation=self.advice.generation,
            disposition=disposition,
            reason=reason,
            detail=detail,
            job_id=job.id if job else self.advice.attempt.job_id,
        )

    def wait(self, reason: Reason, detail: str = "") -> Verdict:
        """Do nothing now."""
        return self.verdict(Disposition.PENDING, reason, detail)

    def give_up(self, reason: Reason, detail: str = "") -> Verdict:
        """Do nothing ever for this generation."""
        return self.verdict(Disposition.ABANDONED, reason, detail)

    def converged(self) -> Verdict:
        """The scheduler shows what the Advice wants; whether that is our doing decides the reason."""
        ours = any(tries.maybe_done for (kind, _), tries in self.history.tries.items() if kind is not EVIDENCE)
        return self.verdict(Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED if ours else Reason.ALREADY_SATISFIED)

    @property
    def exclude(self) -> tuple[str, ...]:
        """Nodes that the Advice excludes and that exist; a node that left the cluster needs no exclusion."""
        if self.advice.action is not Action.RESTART_EXCLUDING:
            return ()
        return tuple(name for name in sorted(set(self.advice.exclude_nodes)) if name in self.world.nodes)
