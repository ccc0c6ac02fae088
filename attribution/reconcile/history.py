"""What the ledger says of one attempt: which steps we tried, what was answered, what was decided. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from attribution.model import Disposition
from attribution.reconcile.terms import Event, LedgerEntry, Mode, Reason, Verdict
from attribution.schedulers.base import ReplyKind, StepKind

_MAYBE_DONE = (ReplyKind.ACCEPTED, ReplyKind.UNKNOWN)
#: Text of the NOTE that records a person's no.
DECLINED = "declined"


@dataclass(slots=True, kw_only=True)
class Tries:
    """Tries of one kind of step on one subject. `last` is UNKNOWN for an intent without an answer: we died there."""

    count: int = 0
    last_s: float = 0.0
    last: ReplyKind = ReplyKind.UNKNOWN
    before: ReplyKind | None = None
    maybe_done: bool = False
    text: str = ""


@dataclass(slots=True, kw_only=True)
class History:
    """All steps of one attempt, over all Advice about it, and the final verdicts by Advice and generation."""

    tries: dict[tuple[StepKind, str], Tries] = field(default_factory=dict)
    final: dict[tuple[str, int], Verdict] = field(default_factory=dict)
    declined: set[tuple[str, StepKind]] = field(default_factory=set)
    last_act_s: float = 0.0
    settling_since_s: dict[tuple[str, int, str], float] = field(default_factory=dict)

    def of(self, kind: StepKind, subject: str = "") -> Tries:
        """Tries of a kind; nothing tried gives count 0."""
        return self.tries.get((kind, subject), Tries())

    def maybe_done(self, kind: StepKind) -> bool:
        """A try was accepted, or may have been."""
        return self.of(kind).maybe_done

    @property
    def requeued(self) -> bool:
        """The requeue of this attempt is of our making, as far as anybody can tell.

        Only the last try counts: it was given because the attempt was still there, so the ones before had no effect,
        unless the one before it was still on its way and came first.
        """
        tries = self.of(StepKind.REQUEUE_HOLD)
        overtaken = tries.last is ReplyKind.ALREADY and tries.before is ReplyKind.UNKNOWN
        return tries.count > 0 and (tries.last in _MAYBE_DONE or overtaken)


def histories(ledger: Sequence[LedgerEntry]) -> dict[str, History]:
    """Act mode's history by attempt. Observe mode's entries never count: nothing was done then."""
    found: dict[str, History] = {}
    replies = {e.intent: e for e in ledger if e.event is Event.RESULT and e.intent is not None}
    for entry in ledger:
        history = found.setdefault(entry.attempt, History())
        if entry.event is Event.VERDICT:
            _settling(history, entry)
        if entry.mode is not Mode.ACT:
            continue
        if entry.event is Event.INTENT and entry.step is not None:
            _count(history, entry, replies.get(entry.seq))
        elif entry.event is Event.VERDICT and entry.disposition not in (None, Disposition.PENDING):
            verdict = _verdict(entry)
            history.final[(entry.advice_id, entry.generation)] = verdict
        elif entry.event is Event.NOTE and entry.text == DECLINED and entry.step is not None:
            history.declined.add((entry.advice_id, entry.step))
    return found


def _count(history: History, intent: LedgerEntry, result: LedgerEntry | None) -> None:
    assert intent.step is not None
    node_step = intent.step in (StepKind.DRAIN, StepKind.UNDRAIN)
    tries = history.tries.setdefault((intent.step, intent.subject if node_step else ""), Tries())
    reply = result.reply if result is not None and result.reply is not None else ReplyKind.UNKNOWN
    tries.before = tries.last if tries.count else None
    tries.count += 1
    tries.last_s, tries.last = intent.time_s, reply
    tries.text = result.text if result is not None else ""
    tries.maybe_done |= reply in _MAYBE_DONE
    if intent.step is StepKind.SAVE_EVIDENCE:
        # a file of ours: an intent without a result was not finished
        tries.maybe_done = reply is ReplyKind.ACCEPTED
        return
    history.last_act_s = max(history.last_act_s, result.time_s if result is not None else intent.time_s)


def _settling(history: History, entry: LedgerEntry) -> None:
    """Since when the same end is seen without a break; another verdict in between begins anew."""
    of_advice = (entry.advice_id, entry.generation)
    for key in [key for key in history.settling_since_s if key[:2] == of_advice]:
        del history.settling_since_s[key]
    if entry.reason is Reason.SETTLING:
        history.settling_since_s[(*of_advice, entry.text)] = entry.time_s


def _verdict(entry: LedgerEntry) -> Verdict:
    assert entry.disposition is not None and entry.reason is not None
    return Verdict(
        advice_id=entry.advice_id,
        attempt=entry.attempt,
        generation=entry.generation,
        disposition=entry.disposition,
        reason=entry.reason,
        detail=entry.text,
        job_id=entry.subject,
    )


def within_hour(ledger: Iterable[LedgerEntry], kinds: frozenset[StepKind], now_s: float) -> int:
    """Commands of these kinds given in the last hour."""
    return sum(
        entry.event is Event.INTENT and entry.mode is Mode.ACT and entry.step in kinds and now_s - entry.time_s < 3600
        for entry in ledger
    )
