"""A Slurm in memory that behaves like the real one where that matters to a reconciler; deterministic, on a given clock.

Each behaviour was seen on 22.05.8 (captures in tests/schedulers/captures, rules in docs/explanation/reconcile.md), also
the unkind ones: a COMPLETED or CANCELLED job is requeued without a word, a late requeue kills the next attempt,
accepted changes are lost when the controller crashes, a hold of a running job is accepted, an array's last task has the
array's id. The same contract tests run against this and against real daemons. `fake_client` puts Slurm's command line
before it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from attribution.schedulers.base import Hold, Job, Node, Reply, ReplyKind, Stamp, Step, StepKind, StepRecord, World
from attribution.schedulers.slurm import commands_of, kind_of

ENDED = frozenset({"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED", "COMPLETED"})
ROOT = "root"


@dataclass(slots=True, kw_only=True)
class FakeJob:
    """One job. `fates` tells per attempt how long it runs and how it ends; an attempt beyond the list runs for ever."""

    raw_id: int
    user: str
    submit_s: int
    partition: str = "main"
    state: str = "PENDING"
    restart: int = 0
    requeue: bool = True
    node_count: int = 1
    nodes: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    hold: str = ""  # "", user, admin, requeue, launch
    flagged: bool = False  # a hold given while running
    begin_s: float = 0.0
    start_s: float = 0.0
    end_s: float = 0.0
    completing_until_s: float | None = None
    after_completing: str = ""
    comment: str = ""
    admin_comment: str = ""
    name: str = "train"
    exit_code: int = 0
    fates: tuple[tuple[float, str], ...] = ()
    array_id: int | None = None
    array_task: int | None = None

    @property
    def id(self) -> str:
        """What commands name."""
        return f"{self.array_id}_{self.array_task}" if self.array_id is not None else str(self.raw_id)

    @property
    def held(self) -> bool:
        """Priority 0."""
        return bool(self.hold) or self.flagged


@dataclass(slots=True, kw_only=True)
class FakeNode:
    """One node."""

    name: str
    drained: bool = False
    down: bool = False
    reason: str = ""
    partitions: tuple[str, ...] = ("main",)


@dataclass(slots=True)
class FakeSlurm:
    """The controller: jobs, nodes, a clock that only `advance` moves, and what of it is on disk."""

    now_s: float = 1_796_000_000.0
    cluster: str = "lab"
    requeue_delay_s: float = 6.0
    completing_s: float = 1.0
    save_every_s: float = 3.0
    min_job_age_s: float = 300.0
    admins: frozenset[str] = frozenset({ROOT})
    jobs: dict[int, FakeJob] = field(default_factory=dict)
    nodes: dict[str, FakeNode] = field(default_factory=dict)
    next_id: int = 1
    down: bool = False
    _saved: tuple[dict[int, FakeJob], dict[str, FakeNode], int] = field(default=({}, {}, 1), init=False)
    _saved_at_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not self.nodes:
            self.nodes = {f"gpu-{n:03d}": FakeNode(name=f"gpu-{n:03d}") for n in range(1, 5)}
        self.save()

    def submit(self, user: str = "alice", **more: object) -> FakeJob:
        """A new job; starts at the next `advance`."""
        job = FakeJob(raw_id=self.next_id, user=user, submit_s=int(self.now_s), **more)  # type: ignore[arg-type]
        self.next_id += 1
        self.jobs[job.raw_id] = job
        return job

    def submit_array(self, tasks: int, user: str = "alice", **more: object) -> list[FakeJob]:
        """An array, already split. Its last task has the array's id, as in Slurm."""
        array_id = self.next_id
        self.next_id += tasks
        ids = [*range(array_id + 1, array_id + tasks), array_id]
        made = []
        for task, raw_id in enumerate(ids):
            made.append(
                FakeJob(
                    raw_id=raw_id,
                    user=user,
                    submit_s=int(self.now_s),
                    array_id=array_id,
                    array_task=task,
                    **more,  # type: ignore[arg-type]
                )
            )
            self.jobs[raw_id] = made[-1]
        return made

    def advance(self, seconds: float) -> None:
        """Let time pass: attempts end, nodes are cleaned, jobs start, state is written."""
        self.now_s += seconds
        if self.down:
            return
        for job in list(self.jobs.values()):
            self._move(job)
        if self.now_s - self._saved_at_s >= self.save_every_s:
            self.save()

    def save(self) -> None:
        """Write state, as slurmctld does some seconds after a change and at a clean stop."""
        jobs = {raw_id: copy.copy(job) for raw_id, job in self.jobs.items()}
        self._saved = (jobs, {name: copy.copy(node) for name, node in self.nodes.items()}, self.next_id)
        self._saved_at_s = self.now_s

    def crash(self) -> None:
        """kill -9 and start again: everything since the last save is forgotten, ids are given a second time."""
        jobs, nodes, self.next_id = self._saved
        self.jobs = {raw_id: copy.copy(job) for raw_id, job in jobs.items()}
        self.nodes = {name: copy.copy(node) for name, node in nodes.items()}

    def find(self, text: str) -> FakeJob | None:
        """Job by what a command names."""
        head, _, task = text.partition("_")
        if not head.isdigit():
            return None
        if not task:
            return self.jobs.get(int(head))
        for job in self.jobs.values():
            if job.array_id == int(head) and str(job.array_task) == task:
                return job
        return None

    def _move(self, job: FakeJob) -> None:
        now = self.now_s
        if job.completing_until_s is not None:
            if now < job.completing_until_s:
                return
            job.completing_until_s = None
            if job.after_completing == "PENDING":
                self._pend(job)
            else:
                job.state = job.after_completing
        if job.state == "RUNNING" and job.restart < len(job.fates):
            seconds, end = job.fates[job.restart]
            if now >= job.start_s + seconds:
                self.finish(job, end)
                return
        if job.state == "PENDING":
            self._start(job)
        elif job.state in ENDED and job.completing_until_s is None and now - job.end_s > self.min_job_age_s:
            del self.jobs[job.raw_id]

    def finish(self, job: FakeJob, state: str) -> None:
        """An attempt ends. NODE_FAIL requeues by itself where the job allows it."""
        job.end_s, job.exit_code = self.now_s, 0 if state == "COMPLETED" else 1
        requeue = state == "NODE_FAIL" and job.requeue
        if requeue:
            job.restart += 1
        self._complete(job, "PENDING" if requeue else state)

    def _complete(self, job: FakeJob, after: str) -> None:
        job.completing_until_s, job.after_completing, job.state = self.now_s + self.completing_s, after, "COMPLETING"

    def _pend(self, job: FakeJob) -> None:
        job.state, job.submit_s, job.nodes = "PENDING", int(self.now_s), ()
        job.begin_s = self.now_s + self.requeue_delay_s
        if job.flagged and not job.hold:
            # a hold given while it ran: JobHeldUser when requeued running, JobHeldAdmin when it failed before
            job.hold = "admin" if job.exit_code else "user"
        job.flagged = False

    def _fit(self, job: FakeJob) -> tuple[str, ...] | None:
        """Nodes for a start now; None when no state of the nodes would do (BadConstraints)."""
        pool = [n for n in sorted(self.nodes) if set(job.partition.split(",")) & set(self.nodes[n].partitions)]
        free = [n for n in pool if n not in job.excluded]
        if len(free) < job.node_count or set(job.required) & set(job.excluded):
            return None
        ready = [n for n in free if not self.nodes[n].drained and not self.nodes[n].down]
        if not set(job.required) <= set(ready) or len(ready) < job.node_count:
            return ()
        return tuple(sorted([*job.required, *(n for n in ready if n not in job.required)][: job.node_count]))

    def _start(self, job: FakeJob) -> None:
        if job.held or self.now_s < job.begin_s:
            return
        nodes = self._fit(job)
        if nodes and job.restart and int(self.now_s) <= job.submit_s:
            # "Killing non-startable batch: Job credential revoked"
            job.nodes, job.start_s = nodes, self.now_s
            job.state, job.end_s, job.exit_code = "FAILED", self.now_s, 1
        elif nodes:
            job.state, job.nodes, job.start_s, job.exit_code = "RUNNING", nodes, self.now_s, 0

    def reason(self, job: FakeJob) -> tuple[str, str]:
        """`state_reason` and `state_description` as JSON of 22.05 has them."""
        if job.hold == "admin":
            return "JobHeldAdmin", ""
        if job.hold == "requeue":
            return "JobHeldUser", "job requeued in held state"
        if job.hold == "launch":
            return "JobHeldUser", "launch failed requeued held"
        if job.hold or (job.flagged and job.state == "RUNNING"):
            return "JobHeldUser", ""
        if job.state == "PENDING":
            if self._fit(job) is None:
                return "BadConstraints", ""
            return ("BeginTime", "") if self.now_s < job.begin_s else ("None", "")
        return ("NonZeroExitCode" if job.exit_code else "None"), ""

    # ---- commands: each gives Slurm's words, "" for exit 0

    def may(self, user: str, job: FakeJob) -> bool:
        """Owner, operator or administrator."""
        return user == job.user or user in self.admins

    def do_requeue(self, user: str, target: str, hold: bool = False, incomplete: bool = False) -> str:
        """scontrol requeue and requeuehold."""
        job = self.find(target)
        if job is None:
            return "Invalid job id specified"
        if not self.may(user, job):
            return "Access/permission denied"
        if incomplete and job.state != "RUNNING":
            return ""
        if not job.requeue:
            return "Requested operation is presently disabled"
        pending = job.state == "PENDING" or (job.state == "COMPLETING" and job.after_completing == "PENDING")
        if pending:
            return "Job is pending execution"
        job.restart += 1
        if hold:
            job.hold, job.flagged = "requeue", False
        if job.state == "RUNNING":
            job.end_s = self.now_s
            self._complete(job, "PENDING")
        elif job.state == "COMPLETING":
            job.after_completing = "PENDING"
        else:
            self._pend(job)
        return ""

    def do_hold(self, user: str, target: str, polite: bool = False) -> str:
        """scontrol hold and uhold."""
        job = self.find(target)
        if job is None:
            return "Invalid job id specified"
        if not self.may(user, job):
            return "Access/permission denied"
        if job.state in ENDED:
            return "Job has already finished"
        admin = user in self.admins and not polite
        if job.state == "RUNNING":
            job.flagged = True
        elif admin:
            job.hold = "admin"
        elif not job.hold:
            job.hold = "user"  # on top of another hold it changes nothing
        return ""

    def do_release(self, user: str, target: str) -> str:
        """scontrol release."""
        job = self.find(target)
        if job is None:
            return "Invalid job id specified"
        if not self.may(user, job) or (job.hold == "admin" and user not in self.admins):
            return "Access/permission denied"
        if job.state in ENDED:
            return "Job has already finished"
        if job.state == "PENDING" or job.completing_until_s is not None:
            job.hold = ""
        return ""

    def do_update_job(self, user: str, target: str, key: str, value: str) -> str:
        """scontrol update JobId=."""
        job = self.find(target)
        if job is None:
            return "Invalid job id specified"
        if not self.may(user, job) or (key == "AdminComment" and user not in self.admins):
            return "Access/permission denied"
        if key == "AdminComment":
            job.admin_comment = value
        elif key == "Comment":
            job.comment = value
        elif job.state in ENDED:
            return "Job has already finished"
        elif key == "ExcNodeList":
            return self._exclude(job, value)
        elif key == "StartTime":
            if job.state == "RUNNING":
                return "Job is no longer pending execution"
            if job.state == "PENDING":  # while COMPLETING it is accepted and overwritten later
                job.begin_s = self.now_s
        return ""

    def _exclude(self, job: FakeJob, value: str) -> str:
        names = tuple(sorted(filter(None, value.split(","))))
        if any(name not in self.nodes for name in names):
            return "Invalid node name specified"
        if job.state == "RUNNING" or (job.state == "COMPLETING" and job.after_completing != "PENDING"):
            return "Job is no longer pending execution"
        job.excluded = names
        return ""

    def do_cancel(self, user: str, target: str) -> str:
        """Scancel. An unknown or ended job is exit 0."""
        job = self.find(target)
        if job is None or job.state in ENDED:
            return ""
        if not self.may(user, job):
            return "Access/permission denied"
        job.end_s = self.now_s
        if job.state == "RUNNING" or job.completing_until_s is not None:
            self._complete(job, "CANCELLED")
        else:
            job.state = "CANCELLED"
        return ""

    def do_node(self, user: str, name: str, state: str, reason: str = "") -> str:
        """scontrol update NodeName=. A drain overwrites any reason that is there."""
        node = self.nodes.get(name)
        if node is None:
            return "Invalid node name specified"
        if user not in self.admins:
            return "Invalid user id"
        if state in ("DRAIN", "DOWN"):
            if not reason:
                return "You must specify a reason when DOWNING or DRAINING a node. Request denied"
            node.reason = reason
            node.drained, node.down = node.drained or state == "DRAIN", node.down or state == "DOWN"
            if state == "DOWN":
                for job in self.jobs.values():
                    if job.state == "RUNNING" and name in job.nodes:
                        self.finish(job, "NODE_FAIL")
        elif state in ("UNDRAIN", "RESUME"):
            if state == "RESUME" and not node.drained and not node.down:
                return "Invalid node state specified"
            node.drained, node.reason = False, ""
            node.down = node.down and state == "UNDRAIN"
        return ""

    def view(self, job: FakeJob, opted_in: bool | None = None) -> Job:
        """A job as an observer sees it."""
        reason, description = self.reason(job)
        holds = {"requeue": Hold.REQUEUE, "launch": Hold.SYSTEM, "": Hold.PERSON if job.flagged else Hold.NONE}
        return Job(
            id=job.id,
            raw_id=job.raw_id,
            state=job.state,
            submit_time_s=job.submit_s,
            restart=job.restart,
            user=job.user,
            cluster=self.cluster,
            name=job.name,
            partition=job.partition,
            completing=job.state == "COMPLETING",
            reason=description or reason,
            hold=holds.get(job.hold, Hold.PERSON),
            priority=0 if job.held else 1,
            requeue=job.requeue,
            nodes=job.nodes,
            excluded=job.excluded,
            required=job.required,
            node_count=job.node_count,
            start_time_s=int(job.start_s),
            end_time_s=int(job.end_s),
            eligible_time_s=int(job.begin_s),
            exit_code=job.exit_code,
            comment=job.comment,
            admin_comment=job.admin_comment,
            opted_in=opted_in,
            array_id=job.array_id,
            array_task=job.array_task,
        )

    def view_node(self, node: FakeNode) -> Node:
        """A node as an observer sees it."""
        return Node(
            name=node.name,
            state="DOWN" if node.down else "IDLE",
            flags=frozenset({"DRAIN"}) if node.drained else frozenset(),
            reason=node.reason,
            partitions=node.partitions,
        )


@dataclass(slots=True, kw_only=True)
class FakeScheduler:
    """Observer and actor over a `FakeSlurm`, without text between. `user` gives the commands."""

    slurm: FakeSlurm
    user: str = ROOT
    opted_in: bool | None = True

    def observe(self) -> World:
        """Everything now; a controller that is down gives a world that is not whole."""
        slurm = self.slurm
        if slurm.down:
            return World(observed_at_s=slurm.now_s, whole=False, problems=("no controller",))
        jobs = {job.id: slurm.view(job, self.opted_in) for job in slurm.jobs.values()}
        nodes = {name: slurm.view_node(node) for name, node in slurm.nodes.items()}
        return World(observed_at_s=slurm.now_s, cluster=slurm.cluster, jobs=jobs, nodes=nodes)

    def stamp(self, job: Job) -> Stamp | None:
        """A fresh look at one job."""
        found = self.slurm.find(job.id)
        return self.slurm.view(found).stamp if found is not None else None

    def node(self, name: str) -> Node | None:
        """A fresh look at one node."""
        node = self.slurm.nodes.get(name)
        return self.slurm.view_node(node) if node else None

    def accounting(self, job: Job) -> tuple[StepRecord, ...]:
        """No accounting here."""
        return ()

    def commands(self, step: Step) -> tuple[tuple[str, ...], ...]:
        """What the real actor would run."""
        return commands_of(step)

    def act(self, step: Step) -> Reply:
        """Give the command of one step; the answer is classified by the same words as the real one."""
        if self.slurm.down:
            return Reply(kind=ReplyKind.UNKNOWN, text="Unexpected message received")
        words = ""
        for target in step.targets or (step.job.id if step.job else "",):
            words = words or self._one(step, target)
        return self.classify(words)

    @staticmethod
    def classify(words: str) -> Reply:
        """Slurm's words as a reply; none is exit 0."""
        return Reply(kind=kind_of(words) if words else ReplyKind.ACCEPTED, text=words)

    def _one(self, step: Step, target: str) -> str:
        slurm, user = self.slurm, self.user
        match step.kind:
            case StepKind.REQUEUE_HOLD:
                return slurm.do_requeue(user, target, hold=True, incomplete=step.stop_running)
            case StepKind.UPDATE_CONSTRAINTS:
                return slurm.do_update_job(user, target, "ExcNodeList", ",".join(step.exclude))
            case StepKind.MARK:
                return slurm.do_update_job(user, target, "AdminComment", step.text)
            case StepKind.RELEASE:
                return slurm.do_release(user, target)
            case StepKind.START_NOW:
                return slurm.do_update_job(user, target, "StartTime", "now")
            case StepKind.CANCEL:
                return slurm.do_cancel(user, target)
            case StepKind.DRAIN | StepKind.UNDRAIN:
                assert step.node is not None
                state = "DRAIN" if step.kind is StepKind.DRAIN else "UNDRAIN"
                return slurm.do_node(user, step.node.name, state, step.text)
        return ""
