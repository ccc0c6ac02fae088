"""Takes back a drain of ours, by a person's command only."""

from __future__ import annotations

import time
from collections.abc import Callable

from attribution.model import AttemptKey
from attribution.reconcile.terms import Event, LedgerEntry, Mode
from attribution.reconcile.tick import Journal
from attribution.schedulers.base import OWN_PREFIX, Actor, Observer, ReplyKind, Step, StepKind

_NOBODY = AttemptKey(job_id="-")


def undrain(
    name: str, observer: Observer, actor: Actor, ledger: Journal, now: Callable[[], float] = time.time
) -> tuple[bool, str]:
    """Undrain one node if the drain is ours; whether it was done, and what to tell.

    Raises SchedulerError when Slurm does not answer.
    """
    node = observer.node(name)
    if node is None:
        return False, "no such node"
    if not node.drained:
        return True, "is not drained"
    if not node.reason.startswith(OWN_PREFIX):
        return False, "drained by somebody else, left alone"
    step = Step(kind=StepKind.UNDRAIN, advice_id="-", attempt=_NOBODY, node=node)
    entry = LedgerEntry(
        seq=0,
        time_s=now(),
        event=Event.INTENT,
        mode=Mode.ACT,
        advice_id=step.advice_id,
        attempt=str(step.attempt),
        step=step.kind,
        subject=name,
        text=node.reason[:200],
    )
    intent = ledger.append(entry)
    reply = actor.act(step)
    ledger.append(
        LedgerEntry(
            seq=0,
            time_s=now(),
            event=Event.RESULT,
            mode=Mode.ACT,
            advice_id=step.advice_id,
            attempt=str(step.attempt),
            step=step.kind,
            subject=name,
            reply=reply.kind,
            intent=intent.seq,
            text=reply.text,
        )
    )
    after = observer.node(name)
    if reply.kind is ReplyKind.ACCEPTED and after is not None and not after.drained:
        return True, "undrained"
    return False, f"still drained: {reply.text or reply.kind}"
