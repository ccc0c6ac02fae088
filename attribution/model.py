"""The nouns of Recovery, their closed sets and the schemas of the stored tables.

Everything that travels between modules is defined here and nowhere else; this module imports nothing of ours and
nothing heavy. Objects are frozen: a stage makes new ones, it never edits what an earlier stage said.

Units stand last in names (``_s`` seconds, ``_ms`` milliseconds, ``_bytes``). Times are seconds since the epoch. A log
whose time stamps carry no zone is read as UTC; `Place.time_s` of two sources may therefore differ by the zone's offset,
and no stage compares clocks of different sources without saying so.

Line numbers are 1-based and count LF-ended lines of the decompressed file; offsets are byte offsets into the
decompressed file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What became of an attempt."""

    COMPLETED = "completed"
    FAILED = "failed"
    HUNG = "hung"
    SLOW = "slow"
    CANCELLED = "cancelled"
    RUNNING = "running"
    UNKNOWN = "unknown"


class Domain(StrEnum):
    """Where the fault lies. ``NONE`` belongs to healthy classes only."""

    WORKLOAD = "workload"
    INFRASTRUCTURE = "infrastructure"
    SCHEDULER = "scheduler"
    UNKNOWN = "unknown"
    NONE = "none"


class Role(StrEnum):
    """What a matched line may be in the story of a failure."""

    ROOT = "root"  # may have started it
    CASCADE = "cascade"  # an effect of something else, unless nothing else is there
    TEARDOWN = "teardown"  # printed while an already failed attempt is taken down
    CONFIRMATION = "confirmation"  # names the cause of another line (OOM kill and a bare "Killed")
    PROGRESS = "progress"
    CONTEXT = "context"  # identity, topology, phases: who is who
    NOISE = "noise"  # looks like a failure and is none


class Status(StrEnum):
    """How sure a claim is, in words. The rule for each stands in docs/explanation/certainty.md."""

    ESTABLISHED = "established"
    SUPPORTED = "supported"
    HYPOTHESIS = "hypothesis"
    UNKNOWN = "unknown"


class Action(StrEnum):
    """What should happen next to an attempt."""

    NONE = "none"
    RESTART = "restart"
    RESTART_EXCLUDING = "restart_excluding"
    HOLD = "hold"  # a person must fix something first
    TERMINATE = "terminate"


class Disposition(StrEnum):
    """State of the reconciliation of one Advice (NVIDIA Recovery's words)."""

    PENDING = "PENDING"
    CONVERGED = "CONVERGED"
    ABANDONED = "ABANDONED"


class Source(StrEnum):
    """Kind of a log. Only the last three are trusted to speak about a node."""

    JOB_LOG = "job_log"
    KERNEL_LOG = "kernel_log"
    SLURM_LOG = "slurm_log"  # slurmctld.log, slurmd.log
    ACCOUNTING = "accounting"  # sacct, scontrol


TRUSTED_SOURCES = frozenset({Source.KERNEL_LOG, Source.SLURM_LOG, Source.ACCOUNTING})


class RuleStatus(StrEnum):
    """Maturity of a signature, lowest first."""

    DEPRECATED = "deprecated"
    EXPERIMENTAL = "experimental"
    TEST = "test"
    STABLE = "stable"


class RecoveryError(Exception):
    """Root of every error that Recovery raises on purpose.

    RecoveryError
    ├── SourceError      a log cannot be read
    ├── RuleError        a rule, table or taxonomy document is wrong
    ├── PolicyError      a policy document is wrong
    ├── ConfigError      a setting is wrong
    ├── StoreError       the store cannot be read or written
    ├── ModelError       a classifier artefact cannot be used
    └── SchedulerError   the scheduler did not answer as understood

    ``where`` names the file and line (or setting) at fault and ``mend`` says what to do about it.
    """

    def __init__(self, what: str, *, where: str | None = None, mend: str | None = None) -> None:
        self.what, self.where, self.mend = what, where, mend
        head = f"{where}: {what}" if where else what
        super().__init__(f"{head} ({mend})" if mend else head)


class SourceError(RecoveryError):
    """A log cannot be read."""


class RuleError(RecoveryError):
    """A rule, table or taxonomy document is wrong."""


class PolicyError(RecoveryError):
    """A policy document is wrong."""


class ConfigError(RecoveryError):
    """A setting is wrong."""


class StoreError(RecoveryError):
    """The store cannot be read or written."""


class ModelError(RecoveryError):
    """A classifier artefact cannot be used."""


class SchedulerError(RecoveryError):
    """The scheduler did not answer as understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a line stands and what its prefix says of who printed it.

    `task` is srun's number in front of a line, `local_rank` torchrun's ``[default3]:``; neither is the global `rank`.
    """

    path: str
    line: int
    offset: int
    time_s: float | None = None
    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    pid: int | None = None
    source: Source = Source.JOB_LOG

    @property
    def order(self) -> tuple[str, int]:
        """Sort key within one attempt where clocks are absent: path, then offset."""
        return (self.path, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One segment of a log line (``\\r`` splits lines into segments), prefixes and ANSI codes taken off.

    `text` is the message as signatures see it; `raw` is the segment as printed (decoded, bounded). `count` is above 1
    where the log itself folded repetitions (Ray's ``[repeated 5x across cluster]``).
    """

    place: Place
    text: str
    raw: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A signature, or a detector, saw something.

    `count` and `last` tell of repetitions that were folded into this match (same signature, file and rank). `frames`
    holds the traceback lines that stand before an exception line (innermost last, bounded). `failure_class` is
    ``family.cause`` or None for context, progress and noise.
    """

    signature: str
    role: Role
    failure_class: str | None
    place: Place
    text: str
    fields: dict[str, str] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()
    specificity: int = 0
    count: int = 1
    last: Place | None = None
    frames: tuple[str, ...] = ()
    shadow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPoint:
    """One progress line, understood. None means that the line does not say."""

    place: Place
    dialect: str
    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    step_time_s: float | None = None
    throughput: float | None = None
    phase: str = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an attempt got. `dialect` None means that no progress format was recognised, which is not "no progress".

    `points` is a bounded sample in file order: the first, the last and evenly strided ones between.
    """

    dialect: str | None = None
    first_step: int | None = None
    last_step: int | None = None
    total_steps: int | None = None
    last_loss: float | None = None
    last_checkpoint_step: int | None = None
    loaded_checkpoint_step: int | None = None
    checkpoints_saved: int = 0
    n_points: int = 0
    points: tuple[ProgressPoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """What is known of one global rank of an attempt."""

    rank: int
    node: str | None = None
    gpu: int | None = None
    pci: str | None = None
    pid: int | None = None
    local_rank: int | None = None
    first_line: Place | None = None
    last_line: Place | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptKey:
    """Identity of one execution. Slurm reuses job ids, so the submit time is part of the key.

    `job_id` is the log's or file's name where no scheduler id is known; `cluster` and `submit_time_s` are None then.
    """

    job_id: str
    cluster: str | None = None
    submit_time_s: int | None = None
    restart: int = 0

    def __str__(self) -> str:
        cluster = f"{self.cluster}/" if self.cluster else ""
        submit = f"@{self.submit_time_s}" if self.submit_time_s is not None else ""
        return f"{cluster}{self.job_id}{submit}.{self.restart}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a job: identity, place, extent. A restart makes a new one and never edits the old.

    `state`, `exit_code` and `exit_signal` are the scheduler's words (accounting), None where no accounting was given.
    `nodes` is the allocation where known, else the nodes named by trusted line prefixes; `files` are as given.
    """

    key: AttemptKey
    files: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    name: str | None = None
    user: str | None = None
    partition: str | None = None
    n_ranks: int | None = None
    gpus: int | None = None
    state: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    time_limit_s: int | None = None
    start_time_s: float | None = None
    end_time_s: float | None = None
    first_line_s: float | None = None
    last_line_s: float | None = None
    comment: str | None = None
    size_bytes: int = 0
    n_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that the logs say of one attempt, in one bounded object: the input of episodes and diagnosis.

    `matches` are sorted by (time where all have one, path, offset). `tail` holds the last lines of every file.
    `template_counts` maps template ids to (count, count within the failure window) and may be empty.
    `notes` says in words what could not be read or understood.
    """

    attempt: Attempt
    matches: tuple[Match, ...] = ()
    progress: Progress = field(default_factory=Progress)
    ranks: tuple[RankFacts, ...] = ()
    tail: tuple[Line, ...] = ()
    sources: frozenset[Source] = frozenset({Source.JOB_LOG})
    template_counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    growing: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One trouble in an attempt. `initiating` is never empty; `rank_first` gives the first sign per rank."""

    initiating: tuple[Match, ...]
    cascade: tuple[Match, ...] = ()
    teardown: tuple[Match, ...] = ()
    confirmation: tuple[Match, ...] = ()
    context: tuple[Match, ...] = ()
    rank_first: dict[int, Place] = field(default_factory=dict)
    recovered: bool = False  # progress of the same operation followed
    because: tuple[str, ...] = ()

    @property
    def root(self) -> Match:
        """The first initiating match."""
        return self.initiating[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """Who started it. Several entries mean "any or all of these"; empty means nobody can be singled out."""

    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    path: str | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A class that might be the answer. `flips_if` says which evidence would make it so."""

    failure_class: str
    confidence: float
    flips_if: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceItem:
    """One cited line of a diagnosis."""

    signature: str
    role: Role
    path: str
    line: int
    offset: int
    text: str
    count: int = 1
    rank: int | None = None
    host: str | None = None
    source: Source = Source.JOB_LOG


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """What a verdict rests on besides the logs. Same digests and same input, same diagnosis."""

    rules: str
    engine: str
    model: str | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What happened to one attempt, where, and how sure that is.

    `confidence` is the calibrated probability that `failure_class` is right. `signals` holds facts beside the class
    that policy and readers need (``hung_until_time_limit``, ``alive_after_failure``, ``no_progress_format`` ...).
    `fingerprint` compares roots over attempts: volatile parts, rank and node are out; `entity` is the thing affected
    (checkpoint path, data position), kept apart.
    """

    attempt: AttemptKey
    outcome: Outcome
    failure_class: str | None
    domain: Domain
    status: Status
    confidence: float
    root: EvidenceItem | None = None
    culprit: Culprit = field(default_factory=Culprit)
    evidence: tuple[EvidenceItem, ...] = ()
    runner_up: Hypothesis | None = None
    missing: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    fingerprint: str | None = None
    entity: str | None = None
    fix: str = ""  # one sentence for the operator, from the root's signature
    progress: Progress = field(default_factory=Progress)
    decided_by: str = "rules"  # rules | classifier | accounting | detector | order
    digests: Digests = field(default_factory=lambda: Digests(rules="", engine=""))

    @property
    def family(self) -> str | None:
        """Family part of the class."""
        return self.failure_class.split(".", 1)[0] if self.failure_class else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A node that a retry should avoid: why, until when, at what price (share of the partition, 0 to 1)."""

    node: str
    because: str
    evidence: tuple[str, ...] = ()
    until_s: float | None = None
    price: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What should happen next to one attempt. One is open per attempt; a higher generation supersedes.

    `reason_code` is the policy row that decided, `limits` the guard rails that weakened the action, `commands` what
    the scheduler adapter would run, as argument lists. `delay_s` asks for a pause before the restart.
    """

    id: str
    attempt: AttemptKey
    action: Action
    generation: int = 1
    exclude: tuple[Exclusion, ...] = ()
    drain: tuple[Exclusion, ...] = ()
    reason_code: str = ""
    reason: str = ""
    fix: str = ""
    because: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    delay_s: int = 0
    issued_at_s: float | None = None
    valid_until_s: float | None = None
    policy: str = "default"
    policy_digest: str = ""
    status: Status = Status.UNKNOWN

    @property
    def exclude_nodes(self) -> tuple[str, ...]:
        """Names of the excluded nodes."""
        return tuple(x.node for x in self.exclude)


def to_plain(value: Any) -> Any:
    """Dataclasses, enums, tuples and sets as plain JSON values; sets sorted, so that equal values give equal JSON."""
    if isinstance(value, StrEnum):
        return str(value)
    if hasattr(value, "__dataclass_fields__"):
        return {name: to_plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(to_plain(v) for v in value)
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    return value
