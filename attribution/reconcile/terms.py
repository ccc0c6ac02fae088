"""Words of the reconciler: limits, reasons, verdicts and ledger entries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from attribution.model import Disposition
from attribution.schedulers.base import ReplyKind, StepKind


class Mode(StrEnum):
    """Observe records what it would do; act does it."""

    OBSERVE = "observe"
    ACT = "act"


class Reason(StrEnum):
    """Why an Advice is where it is. The first four are NVIDIA Recovery's words."""

    DESIRED_STATE_OBSERVED = "DESIRED_STATE_OBSERVED"
    ALREADY_SATISFIED = "ALREADY_SATISFIED"
    ADVICE_EXPIRED = "ADVICE_EXPIRED"
    SUPERSEDED = "SUPERSEDED"
    # ABANDONED
    MOVED_ON = "MOVED_ON"  # the job is in a later attempt that is not of our making
    IDENTITY_MISMATCH = "IDENTITY_MISMATCH"  # the id now belongs to another job
    JOB_COMPLETED = "JOB_COMPLETED"
    JOB_CANCELLED = "JOB_CANCELLED"
    JOB_GONE = "JOB_GONE"
    NOT_REQUEUEABLE = "NOT_REQUEUEABLE"  # --no-requeue or interactive: resubmit by hand
    INFEASIBLE_CONSTRAINTS = "INFEASIBLE_CONSTRAINTS"
    PINNED_NODES = "PINNED_NODES"  # the job asks for the very node that it should avoid
    UNKNOWN_NODE = "UNKNOWN_NODE"
    NOT_PERMITTED = "NOT_PERMITTED"
    REFUSED = "REFUSED"
    OVERRIDDEN = "OVERRIDDEN"  # somebody changed what we had set
    TRIES_EXHAUSTED = "TRIES_EXHAUSTED"
    DECLINED = "DECLINED"  # a person said no to a step
    ARRAY_ID_AMBIGUOUS = "ARRAY_ID_AMBIGUOUS"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    # PENDING
    VIEW_STALE = "VIEW_STALE"
    VIEW_INCOMPLETE = "VIEW_INCOMPLETE"
    KILL_SWITCH = "KILL_SWITCH"
    OTHER_CLUSTER = "OTHER_CLUSTER"
    IDENTITY_INCOMPLETE = "IDENTITY_INCOMPLETE"  # no submit time: not enough to name an attempt
    NOT_OPTED_IN = "NOT_OPTED_IN"
    PARTITION_NOT_ALLOWED = "PARTITION_NOT_ALLOWED"
    DELAYED = "DELAYED"  # the Advice asks for a pause first
    JOB_RUNNING = "JOB_RUNNING"
    JOB_COMPLETING = "JOB_COMPLETING"
    STATE_UNKNOWN = "STATE_UNKNOWN"
    ROLLED_BACK = "ROLLED_BACK"  # the scheduler shows an earlier attempt than the Advice is about
    HELD_BY_PERSON = "HELD_BY_PERSON"
    SETTLING = "SETTLING"
    BACKING_OFF = "BACKING_OFF"
    RATE_LIMITED = "RATE_LIMITED"
    ONE_STEP_PER_JOB = "ONE_STEP_PER_JOB"
    SECOND_LOOK_DIFFERS = "SECOND_LOOK_DIFFERS"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Hard limits of the adapter. Policy may be stricter, nothing may be looser.

    `partitions` None allows every partition (observe mode's default; act mode asks for a list). Shares are of the nodes
    of the job's partition; the stricter of share and number counts, but one node is always allowed.
    """

    partitions: frozenset[str] | None = None
    require_opt_in: bool = True
    killed: bool = False
    allow_drain: bool = False
    mark: bool = True
    max_view_age_s: float = 30.0
    settle_s: float = 5.0
    validity_s: float = 86_400.0
    max_tries: int = 8
    backoff_s: float = 1.0
    max_backoff_s: float = 60.0
    max_stops_per_hour: int = 60  # requeues and cancels
    max_exclude_nodes: int = 8
    max_exclude_share: float = 0.25
    max_drains_per_hour: int = 4
    max_drained_share: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Where the reconciliation of one Advice stands. PENDING is a wait, the others are final for this generation."""

    advice_id: str
    attempt: str
    generation: int
    disposition: Disposition
    reason: Reason
    detail: str = ""
    job_id: str = ""


class Event(StrEnum):
    """Kinds of ledger lines."""

    INTENT = "intent"  # written before a command
    RESULT = "result"  # what the scheduler said to it
    WOULD = "would"  # observe mode: the step that act mode would take
    VERDICT = "verdict"
    NOTE = "note"  # a person approved or declined, the switch was thrown, evidence was saved


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One line of the ledger. `intent` of a RESULT is the `seq` of its INTENT. Only `seq` orders, clocks may jump."""

    seq: int
    time_s: float
    event: Event
    mode: Mode
    advice_id: str
    attempt: str
    generation: int = 1
    step: StepKind | None = None
    subject: str = ""
    exclude: tuple[str, ...] = ()
    reply: ReplyKind | None = None
    intent: int | None = None
    disposition: Disposition | None = None
    reason: Reason | None = None
    text: str = ""
