"""One round of reconciliation: look at everything, plan, write the intent, look again, act, write the answer.

Observe and act mode share this path and the ledger. In observe mode there is no actor, so nothing here could act.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from attribution.model import Advice, AttemptKey, Disposition, SchedulerError
from attribution.reconcile import evidence
from attribution.reconcile.history import DECLINED
from attribution.reconcile.planning import foresee, plan
from attribution.reconcile.terms import Event, LedgerEntry, Limits, Mode, Reason, Verdict
from attribution.schedulers.base import Actor, Job, Observer, Reply, ReplyKind, Step, StepKind, StepRecord, World

#: Asked before each step in --approve; True goes on, False is a no, None means that nobody answered in time.
Approve = Callable[[Step, tuple[tuple[str, ...], ...]], bool | None]
#: Saves the evidence of one attempt under a folder; `evidence.save`.
Save = Callable[[Path, Job, AttemptKey, tuple[StepRecord, ...], float], evidence.Saved]
#: Gives the argument lists of a step.
Commands = Callable[[Step], tuple[tuple[str, ...], ...]]


class Journal(Protocol):
    """What a tick needs of a `Ledger`."""

    @property
    def folder(self) -> Path:
        """Where evidence goes, in a folder of its own."""
        ...

    def append(self, entry: LedgerEntry) -> LedgerEntry:
        """Write down one entry, for good."""
        ...

    def of(self, attempts: Iterable[str]) -> tuple[LedgerEntry, ...]:
        """Entries about these attempts, and all that count against hourly limits."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A step of this round: given with its answer, or only foreseen (observe mode: `reply` is None)."""

    step: Step
    reply: Reply | None
    commands: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one tick saw and did."""

    world: World
    steps: tuple[Done, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def busy(self) -> bool:
        """Something was done, or is about to show: look again soon."""
        soon = (Reason.SETTLING, Reason.BACKING_OFF, Reason.JOB_COMPLETING, Reason.SECOND_LOOK_DIFFERS)
        return any(d.reply is not None for d in self.steps) or any(v.reason in soon for v in self.verdicts)


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Holds what a tick needs. `actor` None is observe mode. `checkpoint` is called between the parts of a step: tests
    die there."""

    observer: Observer
    ledger: Journal
    limits: Limits
    actor: Actor | None = None
    commands: Commands = lambda step: ()
    approve: Approve | None = None
    kill_switch: Path | None = None
    now: Callable[[], float] = time.time
    checkpoint: Callable[[str], None] = lambda name: None
    save: Save = evidence.save
    _last: dict[str, tuple[object, ...]] = field(default_factory=dict, init=False)

    @property
    def mode(self) -> Mode:
        """Act only with an actor."""
        return Mode.OBSERVE if self.actor is None else Mode.ACT

    def tick(self, advice: Sequence[Advice], world: World | None = None) -> Round:
        """One round over all open Advice, on a view just taken (`world`) or one taken now."""
        limits = self._current_limits()
        world = world if world is not None else self.observer.observe()
        entries = self.ledger.of({str(one.attempt) for one in advice})
        done: list[Done] = []
        verdicts: list[Verdict] = []
        by_id = {(one.id, one.generation): one for one in advice}
        for item in plan(world, advice, entries, limits, self.now()):
            if isinstance(item, Verdict):
                verdicts.append(self._record_verdict(item))
            elif self.actor is None:
                done += self._foresee(item, by_id[(item.advice_id, item.generation)], limits)
            else:
                found = self._do(self.actor, item)
                if isinstance(found, Verdict):
                    verdicts.append(self._record_verdict(found))
                else:
                    done.append(found)
        return Round(world=world, steps=tuple(done), verdicts=tuple(verdicts))

    def _current_limits(self) -> Limits:
        thrown = self.kill_switch is not None and self.kill_switch.exists()
        return replace(self.limits, killed=self.limits.killed or thrown)

    def _foresee(self, step: Step, advice: Advice, limits: Limits) -> Iterable[Done]:
        """Record what act mode would do, once per change."""
        steps = (step, *foresee(step, advice, limits))
        mark = tuple(one.label for one in steps)
        changed = self._last.get(step.advice_id) != mark
        self._last[step.advice_id] = mark
        for one in steps:
            args = self.commands(one)
            if changed:
                self._append(one, Event.WOULD, text=" && ".join(" ".join(a) for a in args))
            yield Done(step=one, reply=None, commands=args)

    def _do(self, actor: Actor, step: Step) -> Done | Verdict:
        """Ask, write the intent, look again, act, write the answer."""
        args = actor.commands(step)
        if self.approve is not None and args:
            answer = self.approve(step, args)
            if answer is None:
                return _pending(step, Reason.AWAITING_APPROVAL)
            self._append(step, Event.NOTE, text="approved" if answer else DECLINED)
            if not answer:
                return _pending(step, Reason.AWAITING_APPROVAL, "declined")
        if step.kind is StepKind.SAVE_EVIDENCE:
            return self._save_evidence(step, args)
        self.checkpoint("before look")
        differs = self._second_look(step)
        if differs:
            return _pending(step, Reason.SECOND_LOOK_DIFFERS, differs)
        if self._current_limits().killed:
            return _pending(step, Reason.KILL_SWITCH)
        self.checkpoint("before intent")
        intent = self._append(step, Event.INTENT, text=" && ".join(" ".join(a) for a in args))
        self._last.pop(step.advice_id, None)
        self.checkpoint("before act")
        reply = actor.act(step)
        self.checkpoint("before result")
        self._append(step, Event.RESULT, reply=reply, intent=intent.seq)
        self.checkpoint("after result")
        return Done(step=step, reply=reply, commands=args)

    def _second_look(self, step: Step) -> str:
        """What is different from what the plan was made of; "" when nothing is."""
        try:
            if step.node is not None:
                node = self.observer.node(step.node.name)
                same = node is not None and (node.drained, node.reason) == (step.node.drained, step.node.reason)
                return "" if same else f"node {step.node.name} changed"
            assert step.job is not None
            stamp = self.observer.stamp(step.job)
        except SchedulerError as error:
            return str(error)[:200]
        return "" if stamp == step.job.stamp else f"job {step.job.id} changed"

    def _save_evidence(self, step: Step, args: tuple[tuple[str, ...], ...]) -> Done:
        assert step.job is not None
        intent = self._append(step, Event.INTENT)
        self.checkpoint("before act")
        try:
            rows = self.observer.accounting(step.job)
            saved = self.save(self.ledger.folder / "evidence", step.job, step.attempt, rows, self.now())
            reply = Reply(kind=ReplyKind.ACCEPTED, text="; ".join((saved.folder.name, *saved.missing))[:500])
        except (OSError, SchedulerError) as error:
            reply = Reply(kind=ReplyKind.UNKNOWN, text=str(error)[:200])
        self.checkpoint("before result")
        self._append(step, Event.RESULT, reply=reply, intent=intent.seq)
        return Done(step=step, reply=reply, commands=args)

    def _append(
        self, step: Step, event: Event, *, text: str = "", reply: Reply | None = None, intent: int | None = None
    ) -> LedgerEntry:
        return self.ledger.append(
            LedgerEntry(
                seq=0,
                time_s=self.now(),
                event=event,
                mode=self.mode,
                advice_id=step.advice_id,
                attempt=str(step.attempt),
                generation=step.generation,
                step=step.kind,
                subject=step.node.name if step.node else (step.job.id if step.job else ""),
                exclude=step.exclude,
                reply=reply.kind if reply else None,
                intent=intent,
                text=reply.text if reply else text,
            )
        )

    def _record_verdict(self, verdict: Verdict) -> Verdict:
        """Write a verdict when it is new for its Advice; waits only when their reason changed."""
        settling = verdict.detail if verdict.reason is Reason.SETTLING else ""
        mark = (verdict.generation, verdict.disposition, verdict.reason, settling)
        if verdict.advice_id not in self._last:
            self._last[verdict.advice_id] = self._recorded(verdict)
        if self._last[verdict.advice_id] == mark:
            return verdict
        self._last[verdict.advice_id] = mark
        self.ledger.append(
            LedgerEntry(
                seq=0,
                time_s=self.now(),
                event=Event.VERDICT,
                mode=self.mode,
                advice_id=verdict.advice_id,
                attempt=verdict.attempt,
                generation=verdict.generation,
                subject=verdict.job_id,
                disposition=verdict.disposition,
                reason=verdict.reason,
                text=verdict.detail,
            )
        )
        return verdict

    def _recorded(self, verdict: Verdict) -> tuple[object, ...]:
        """The last verdict of this Advice in the ledger, written by us or by the one before us."""
        mark: tuple[object, ...] = ()
        for entry in self.ledger.of({verdict.attempt}):
            if entry.advice_id == verdict.advice_id and entry.mode is self.mode:
                if entry.event is Event.VERDICT:
                    settling = entry.text if entry.reason is Reason.SETTLING else ""
                    mark = (entry.generation, entry.disposition, entry.reason, settling)
                elif entry.event is Event.INTENT:
                    mark = ()
        return mark


def _pending(step: Step, reason: Reason, detail: str = "") -> Verdict:
    return Verdict(
        advice_id=step.advice_id,
        attempt=str(step.attempt),
        generation=step.generation,
        disposition=Disposition.PENDING,
        reason=reason,
        detail=detail,
        job_id=step.job.id if step.job else "",
    )
