"""What Recovery sees of a cluster (`World`) and what it may ask of it (`Step`), whatever the scheduler.

An `Observer` can only look. An `Actor` can only do one of the listed steps. Observe mode holds no Actor.
Facts about Slurm named here were observed on 22.05.8 and 24.11.5; docs/explanation/reconcile.md tells them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from attribution.model import AttemptKey

#: Node reasons and job marks of ours begin with this; anything else belongs to somebody else.
OWN_PREFIX = "recovery:"


class Hold(StrEnum):
    """Who keeps a job from starting."""

    NONE = "none"
    REQUEUE = "requeue"  # "job requeued in held state": ours if our ledger says so
    SYSTEM = "system"  # "launch failed requeued held": Slurm's own, after a failed prolog
    PERSON = "person"  # JobHeldUser, JobHeldAdmin, or a reason that we do not know


class StepKind(StrEnum):
    """The steps, in NVIDIA Recovery's words where those exist."""

    SAVE_EVIDENCE = "SAVE_EVIDENCE"
    REQUEUE_HOLD = "SLURM_REQUEUE_HOLD"
    UPDATE_CONSTRAINTS = "SLURM_UPDATE_CONSTRAINTS"
    MARK = "SLURM_MARK"
    RELEASE = "SLURM_RELEASE"
    START_NOW = "SLURM_START_NOW"
    CANCEL = "SLURM_CANCEL"
    DRAIN = "SLURM_DRAIN"
    UNDRAIN = "SLURM_UNDRAIN"


class ReplyKind(StrEnum):
    """What the scheduler said to a command. Accepted is not done: a crash of slurmctld can lose it."""

    ACCEPTED = "accepted"
    ALREADY = "already"  # "Job is pending execution": somebody, maybe we, requeued it before
    TOO_LATE = "too_late"  # "Job is no longer pending execution"
    GONE = "gone"  # "Invalid job id specified"
    DISABLED = "disabled"  # --no-requeue
    DENIED = "denied"  # not permitted to us
    INVALID = "invalid"  # the arguments are wrong for this cluster: unknown node, not the het leader
    UNKNOWN = "unknown"  # time-out, "Unexpected message received", no answer: it may or may not have been done


#: Replies after which the same command will never be accepted for this attempt.
FINAL_REPLIES = frozenset({ReplyKind.DISABLED, ReplyKind.DENIED, ReplyKind.INVALID})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The facts of a job that must not have changed between planning and acting; read by one or two cheap calls.

    `excluded` counts for pending jobs only: nothing can be set on others.
    """

    raw_id: int
    state: str
    hold: Hold
    restart: int
    submit_time_s: int
    user: str
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job as the controller shows it now.

    `id` is what commands name: ``81``, array task ``61_5``, the leader of a heterogeneous job. `state` is the base
    state in capitals; `completing` is set while nodes are still being cleaned, when 22.05 hides the base state.
    `priority` 0 means held, also on a running job. `node_count` is how many nodes a start needs. `stdout` and `stderr`
    may hold patterns. Comments, names and paths are written by users: data, never identity.
    """

    id: str
    raw_id: int
    state: str
    submit_time_s: int
    restart: int
    user: str
    uid: int = -1
    cluster: str | None = None
    name: str = ""
    partition: str = ""
    completing: bool = False
    reason: str = ""
    hold: Hold = Hold.NONE
    priority: int = 1
    requeue: bool | None = None
    batch: bool = True
    nodes: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    node_count: int = 1
    start_time_s: int = 0
    end_time_s: int = 0
    eligible_time_s: int = 0
    exit_code: int | None = None
    comment: str = ""
    admin_comment: str = ""
    opted_in: bool | None = None
    max_restarts: int | None = None
    array_id: int | None = None
    array_task: int | None = None
    array_pending: str = ""
    het_leader: int | None = None
    het_offset: int = 0
    batch_host: str = ""
    stdout: str = ""
    stderr: str = ""
    workdir: str = ""

    @property
    def stamp(self) -> Stamp:
        """What a second look compares."""
        return Stamp(
            raw_id=self.raw_id,
            state="COMPLETING" if self.completing else self.state,
            hold=self.hold,
            restart=self.restart,
            submit_time_s=self.submit_time_s,
            user=self.user,
            excluded=self.excluded if self.state == "PENDING" and not self.completing else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `state` is the base state in capitals, `flags` such as DRAIN, NOT_RESPONDING. `reason` is as set."""

    name: str
    state: str
    flags: frozenset[str] = frozenset()
    reason: str = ""
    partitions: tuple[str, ...] = ()

    @property
    def drained(self) -> bool:
        """Draining or drained, by anybody."""
        return "DRAIN" in self.flags or "FAIL" in self.flags

    @property
    def ours(self) -> bool:
        """Drained by Recovery."""
        return self.drained and self.reason.startswith(OWN_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything at one moment. `whole` is False when a part could not be read; `problems` says which and why."""

    observed_at_s: float
    cluster: str | None = None
    jobs: dict[str, Job] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    whole: bool = True
    problems: tuple[str, ...] = ()

    def by_raw_id(self, raw_id: int) -> Job | None:
        """Job with this numeric id."""
        for job in self.jobs.values():
            if job.raw_id == raw_id:
                return job
        return None

    def components(self, leader: int) -> tuple[Job, ...]:
        """All parts of a heterogeneous job, leader first."""
        found = [job for job in self.jobs.values() if job.het_leader == leader]
        return tuple(sorted(found, key=lambda job: job.het_offset))

    def partition_nodes(self, partition: str) -> tuple[str, ...]:
        """Nodes of a job's partition; a job may name several, comma separated."""
        wanted = set(partition.split(","))
        return tuple(sorted(name for name, node in self.nodes.items() if wanted & set(node.partitions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do next. `job` is the job as seen when it was planned (None for node steps).

    `exclude` is the whole list to be set, ours united with what is there. `targets` names the jobs of a command where
    that is not `job` alone (parts of a heterogeneous job). `stop_running` guards a requeue of a running job: Slurm then
    ignores the command once the attempt has ended by itself.
    """

    kind: StepKind
    advice_id: str
    attempt: AttemptKey
    generation: int = 1
    job: Job | None = None
    targets: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    node: Node | None = None
    text: str = ""
    stop_running: bool = False
    because: str = ""

    @property
    def label(self) -> tuple[str, ...]:
        """What makes two plans of a step the same step."""
        subject = self.node.name if self.node else (self.job.id if self.job else "")
        return (str(self.kind), self.advice_id, subject, ",".join(self.exclude), self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The scheduler's answer to a command; `text` is bounded and printable."""

    kind: ReplyKind
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """Accounting's line of one job step, as saved with the evidence."""

    job_id: str
    state: str
    exit_code: str
    start: str
    end: str
    nodes: str


class Observer(Protocol):
    """May look, and nothing else."""

    def observe(self) -> World:
        """Everything, in as few calls as possible. An unreachable scheduler gives a world that is not `whole`."""
        ...

    def stamp(self, job: Job) -> Stamp | None:
        """A fresh cheap look at one job; None when it is gone. Raises SchedulerError when no answer came."""
        ...

    def node(self, name: str) -> Node | None:
        """A fresh look at one node; None when there is no such node. Raises SchedulerError when no answer came."""
        ...

    def accounting(self, job: Job) -> tuple[StepRecord, ...]:
        """Accounting's rows of a job and its steps; empty where there is no accounting."""
        ...


class Actor(Protocol):
    """May give the commands of `StepKind`, each once per call."""

    def act(self, step: Step) -> Reply:
        """Give the command of one step. Never raises for what the scheduler says."""
        ...

    def commands(self, step: Step) -> tuple[tuple[str, ...], ...]:
        """The argument lists that `act` would run, for people to read."""
        ...
