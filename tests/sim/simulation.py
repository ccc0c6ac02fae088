"""A cluster, its people and a reconciler under one seeded clock, with everything going wrong that can.

Commands get lost, come late, are doubled, are done without an answer; the controller crashes and forgets; the reconciler
is killed between any two parts of a step; people hold, release, cancel, requeue and drain at every moment. `run(seed)`
raises `Wrong` when an invariant breaks; the seed replays it.

What Slurm makes impossible is not asked for: it has no compare-and-swap, so a person who acts between our second look and
our command (a millisecond) cannot be seen. Commands are therefore judged by what the second look could see.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from attribution.model import Action, Advice, AttemptKey, Disposition, Exclusion, Status
from attribution.reconcile import Event, LedgerEntry, Limits, Reason, Reconciler, Round
from attribution.reconcile.evidence import Saved
from attribution.reconcile.planning import RESTARTABLE
from attribution.schedulers.base import Job, Node, Reply, ReplyKind, Stamp, Step, StepKind, StepRecord, World
from attribution.schedulers.fake import ENDED, FakeJob, FakeScheduler, FakeSlurm

LIMITS = Limits(
    settle_s=4.0, max_view_age_s=20.0, backoff_s=1.0, max_backoff_s=8.0, allow_drain=True, max_drained_share=0.5,
    max_exclude_share=0.5, max_tries=12, partitions=frozenset({"main"}),
)  # fmt: skip
VALID_S = 120.0
CHAOS_ROUNDS, CALM_ROUNDS = 14, 60
FATES = ("FAILED", "FAILED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "COMPLETED")


class Wrong(AssertionError):  # noqa: N818
    """An invariant does not hold."""


class Died(BaseException):
    """The reconciler was killed here."""


@dataclass(slots=True)
class MemoryLedger:
    """A ledger that survives the reconciler, without a disk."""

    sim: Simulation
    entries: list[LedgerEntry] = field(default_factory=list)
    folder: Path = Path("/nowhere")

    def append(self, entry: LedgerEntry) -> LedgerEntry:
        written = replace(entry, seq=len(self.entries) + 1)
        self.entries.append(written)
        if entry.event is Event.VERDICT:
            self.sim.check_final(written)
        return written

    def of(self, attempts: Iterable[str]) -> tuple[LedgerEntry, ...]:
        return tuple(self.entries)


@dataclass(slots=True)
class Simulation:
    """One run."""

    seed: int
    slurm: FakeSlurm = field(default_factory=FakeSlurm)
    rng: random.Random = field(init=False)
    advice: list[Advice] = field(default_factory=list)
    calm: bool = False
    trace: list[str] = field(default_factory=list)
    evidence: set[str] = field(default_factory=set)
    #: who requeued each attempt into existence: (raw id, restart) -> "we", "person", "both"
    requeued_by: dict[tuple[int, int], str] = field(default_factory=dict)
    in_flight: list[Step] = field(default_factory=list)
    looked: Job | None = None
    looked_node: Node | None = None
    touched: dict[int, float] = field(default_factory=dict)
    crashed_s: list[float] = field(default_factory=list)
    final: dict[str, Reason] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.ledger = MemoryLedger(self)
        self.observer = Eyes(self)
        self.actor = Hands(self)

    ledger: MemoryLedger = field(init=False)
    observer: Eyes = field(init=False)
    actor: Hands = field(init=False)

    def note(self, text: str) -> None:
        self.trace.append(f"{self.slurm.now_s - 1_796_000_000.0:7.1f} {text}")

    def chance(self, share: float) -> bool:
        return not self.calm and self.rng.random() < share

    def wrong(self, what: str) -> Wrong:
        return Wrong(f"seed {self.seed}: {what}\n" + "\n".join(self.trace[-60:]))

    # the cluster's life

    def populate(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            fates = tuple((self.rng.uniform(0.5, 12.0), self.rng.choice(FATES)) for _ in range(self.rng.randint(1, 3)))
            self.slurm.submit(
                fates=fates,
                requeue=self.rng.random() > 0.08,
                node_count=self.rng.choice((1, 1, 2)),
                excluded=("gpu-004",) if self.rng.random() < 0.15 else (),
                required=("gpu-001",) if self.rng.random() < 0.08 else (),
                partition="other" if self.rng.random() < 0.05 else "main",
                admin_comment="theirs" if self.rng.random() < 0.1 else "",
            )
        if self.rng.random() < 0.2:
            self.slurm.submit_array(3, fates=((3.0, "FAILED"),))
        for node in self.slurm.nodes.values():
            node.partitions = ("main", "other")

    def advise(self) -> None:
        """New Advice, as diagnosis would give it: about attempts that failed or run."""
        for job in list(self.slurm.jobs.values()):
            if job.restart > 2 or not self.rng.random() < 0.45:
                continue
            if job.state not in RESTARTABLE and not (job.state == "RUNNING" and self.rng.random() < 0.3):
                continue
            key = AttemptKey(job_id=job.id, cluster="lab", submit_time_s=job.submit_s, restart=job.restart)
            old = [a for a in self.advice if a.attempt == key]
            if old and self.rng.random() > 0.1:
                continue
            self.advice.append(self._advice(job, key, len(old) + 1))

    def _advice(self, job: FakeJob, key: AttemptKey, generation: int) -> Advice:
        kinds = (Action.RESTART, Action.RESTART_EXCLUDING, Action.RESTART_EXCLUDING, Action.HOLD, Action.TERMINATE)
        action = self.rng.choice(kinds) if generation == 1 else self.rng.choice((*kinds, Action.NONE))
        bad = tuple(Exclusion(node=n, because="sim") for n in job.nodes[:1])
        return Advice(
            id=f"a{job.raw_id}-{job.submit_s}-{job.restart}-{generation}",
            attempt=key,
            action=action,
            generation=generation,
            exclude=bad if action is Action.RESTART_EXCLUDING else (),
            drain=bad if self.rng.random() < 0.2 else (),
            status=self.rng.choice((Status.ESTABLISHED, Status.HYPOTHESIS)),
            issued_at_s=self.slurm.now_s,
            valid_until_s=self.slurm.now_s + VALID_S,
        )

    def people(self) -> None:
        """Somebody does something by hand."""
        jobs = sorted(self.slurm.jobs)
        if not jobs or self.slurm.down:
            return
        job = self.slurm.jobs[self.rng.choice(jobs)]
        user = self.rng.choice((job.user, "root"))
        what = self.rng.choice(
            ("hold", "hold", "release", "cancel", "requeue", "requeuehold", "drain", "clear", "submit")
        )
        self.note(f"person {user} {what} {job.id} ({job.state} r{job.restart} hold={job.hold!r})")
        before = job.restart
        self.touched[job.raw_id] = self.slurm.now_s
        match what:
            case "hold":
                self.slurm.do_hold(user, job.id, polite=self.rng.random() < 0.3)
            case "release":
                self.slurm.do_release(user, job.id)
            case "cancel":
                self.slurm.do_cancel(user, job.id)
            case "requeue" | "requeuehold":
                self.slurm.do_requeue(user, job.id, hold=what == "requeuehold")
                if job.restart > before:
                    self.requeued_by[(job.raw_id, job.restart)] = "person"
            case "drain":
                node = self.rng.choice(sorted(self.slurm.nodes))
                self.slurm.do_node("root", node, self.rng.choice(("DRAIN", "DOWN", "UNDRAIN")), "theirs")
            case "clear":
                self.slurm.do_update_job(user, job.id, "ExcNodeList", "")
            case "submit":
                self.slurm.submit(fates=((2.0, "FAILED"),))

    def happen(self, name: str) -> None:
        """Called between the parts of a step, and between rounds."""
        if self.in_flight and (self.calm or self.rng.random() < 0.6):
            self.apply(self.in_flight.pop(0), late=True)
        if self.chance(0.10):
            self.people()
        if self.chance(0.05):
            self.slurm.advance(self.rng.choice((0.1, 1.0, 3.0, 15.0)))
        if self.chance(0.03):
            self.note("controller crashes")
            self.crashed_s.append(self.slurm.now_s)
            self.slurm.crash()
        if self.chance(0.05):
            self.note(f"reconciler killed {name}")
            raise Died

    # what our commands do

    def apply(self, step: Step, late: bool = False) -> str:
        job = self.slurm.find(step.job.id) if step.job else None
        before = job.restart if job else 0
        scheduler = FakeScheduler(slurm=self.slurm)
        words = scheduler.act(step).text
        if job is not None and job.restart > before:
            self.requeued_by[(job.raw_id, job.restart)] = "we"
        self.note(f"{'late ' if late else ''}{step.kind} {step.job.id if step.job else step.node} -> {words or 'ok'}")
        return words

    def judge(self, step: Step) -> None:
        """A command is about to be given; `looked` is what the second look saw."""
        if step.node is not None:
            node = self.looked_node
            if node is None:
                raise self.wrong("drain without a second look")
            own = node.reason == step.text  # one of ours in flight came first: the same drain again changes nothing
            return self._judge_drain(step, node.drained and not own, "" if own else node.reason)
        job, key = self.looked, step.attempt
        if job is None:
            raise self.wrong(f"{step.kind} without a second look")
        if job.partition != "main":
            raise self.wrong("a partition that is not ours")
        same = (job.restart, job.submit_time_s) == (key.restart, key.submit_time_s)
        successor = job.restart == key.restart + 1 and job.state == "PENDING"
        origin = self.requeued_by.get((job.raw_id, job.restart), "slurm")
        match step.kind:
            case StepKind.REQUEUE_HOLD:
                if not same or job.state not in (*RESTARTABLE, "RUNNING"):
                    raise self.wrong(f"requeue of {job.state} restart {job.restart} for {key}")
                if str(key) not in self.evidence:
                    raise self.wrong("requeue before the evidence was saved")
            case StepKind.CANCEL:
                if not same:
                    raise self.wrong(f"cancel of restart {job.restart} for {key}")
            case StepKind.RELEASE:
                self._judge_release(job, key, successor, origin)
            case StepKind.UPDATE_CONSTRAINTS:
                if not successor or not set(job.excluded) <= set(step.exclude):
                    raise self.wrong(f"constraints {step.exclude} over {job.excluded} in {job.state}")
            case _:
                if not successor:
                    raise self.wrong(f"{step.kind} on {job.state} restart {job.restart} for {key}")
        return None

    def _judge_drain(self, step: Step, drained: bool, reason: str) -> None:
        if drained or reason:
            raise self.wrong(f"drain over {reason!r}")
        found = next(a for a in self.advice if a.id == step.advice_id)
        if found.status is Status.HYPOTHESIS:
            raise self.wrong("drain on a hypothesis")

    def _judge_release(self, job: Job, key: AttemptKey, successor: bool, origin: str) -> None:
        actual = self.slurm.find(job.id)
        if not successor or job.hold.value not in ("requeue", "system"):
            raise self.wrong(f"release of {job.state} held by {job.hold} for {key}")
        # a person's requeuehold after one of ours that may or may not have been done looks exactly like ours
        unsure = any(
            e.step is StepKind.REQUEUE_HOLD and e.attempt == str(key) and e.event is Event.INTENT
            for e in self.ledger.entries
        )
        if origin != "we" and job.hold.value == "requeue" and not unsure:
            raise self.wrong(f"release of a requeue by {origin}")
        if actual is None:
            raise self.wrong("release of nothing")

    # rounds

    def reconciler(self) -> Reconciler:
        return Reconciler(
            observer=self.observer,
            actor=self.actor,
            ledger=self.ledger,
            limits=LIMITS,
            now=lambda: self.slurm.now_s,
            checkpoint=self.happen,
            save=self.save_evidence,
        )

    def save_evidence(
        self, folder: Path, job: Job, attempt: AttemptKey, rows: tuple[StepRecord, ...], now_s: float
    ) -> Saved:
        if self.chance(0.05):
            raise OSError("no space left")
        self.evidence.add(str(attempt))
        return Saved(folder=folder, files=(), missing=())

    def open_advice(self) -> list[Advice]:
        return [a for a in self.advice if a.id not in self.final]

    def settle(self, seen: Round) -> None:
        for verdict in seen.verdicts:
            if verdict.disposition is Disposition.PENDING:
                continue
            self.final[verdict.advice_id] = verdict.reason

    def check_final(self, entry: LedgerEntry) -> None:
        """CONVERGED must be what the scheduler showed in that very round."""
        if entry.disposition is Disposition.PENDING:
            return
        advice_id = entry.advice_id
        self.note(f"{advice_id} {entry.disposition} {entry.reason} {entry.text}")
        advice = next(a for a in self.advice if a.id == advice_id)
        if entry.disposition is Disposition.ABANDONED or advice.action is Action.NONE:
            return
        assert self.observer.shown is not None
        job = self.observer.shown.jobs.get(advice.attempt.job_id)
        if advice.action in (Action.HOLD, Action.TERMINATE):
            if job is not None and job.restart == advice.attempt.restart and job.state not in ENDED:
                raise self.wrong(f"{advice_id} converged while {job.state}")
            return
        if job is None or job.restart != advice.attempt.restart + 1 or (job.state == "PENDING" and job.priority == 0):
            raise self.wrong(f"{advice_id} converged without a released successor")
        if advice.action is Action.RESTART_EXCLUDING and not set(advice.exclude_nodes) <= set(job.excluded):
            raise self.wrong(f"{advice_id} converged without its exclusions")

    def round(self, reconciler: Reconciler) -> Reconciler:
        try:
            self.happen("between rounds")
            self.settle(reconciler.tick(self.open_advice()))
        except Died:
            self.looked = None
            return self.reconciler()
        return reconciler

    def run(self) -> Simulation:
        """Chaos, then calm until everything is settled. Raises Wrong."""
        self.populate()
        self.slurm.advance(0.1)
        reconciler = self.reconciler()
        for _ in range(CHAOS_ROUNDS):
            self.slurm.advance(self.rng.choice((0.5, 1.0, 2.0, 5.0)))
            if self.chance(0.06):
                self.slurm.down = not self.slurm.down
                self.note(f"controller {'stops' if self.slurm.down else 'answers again'}")
            self.advise()
            reconciler = self.round(reconciler)
        self.calm, self.slurm.down = True, False
        self.note("calm")
        for turn in range(CALM_ROUNDS):
            if not self.open_advice():
                break
            self.slurm.advance(1.0 if turn < 40 else VALID_S / 10)
            reconciler = self.round(reconciler)
        self.check_end()
        return self

    def check_end(self) -> None:
        left = [a.id for a in self.open_advice()]
        if left:
            last = {e.advice_id: e.reason for e in self.ledger.entries if e.reason}
            raise self.wrong(f"not settled: {[(one, last.get(one)) for one in left]}")
        for job in self.slurm.jobs.values():
            ours = self.requeued_by.get((job.raw_id, job.restart)) == "we"
            if not (ours and job.hold == "requeue" and job.state == "PENDING"):
                continue
            about = [a for a in self.advice if a.attempt.job_id == job.id and a.attempt.restart == job.restart - 1]
            if about and not self._explained(about) and not self._forgotten(job):
                raise self.wrong(
                    f"job {job.id} was left held without a word: {[(a.id, self.final[a.id]) for a in about]}"
                )

    def _forgotten(self, job: FakeJob) -> bool:
        """What a person did to the job last was forgotten by a crash right after: nobody could see that."""
        touched_s = self.touched.get(job.raw_id)
        return touched_s is not None and any(0 <= at - touched_s <= LIMITS.settle_s for at in self.crashed_s)

    def _explained(self, about: list[Advice]) -> bool:
        told = any("left held" in e.text for e in self.ledger.entries if e.attempt == str(about[0].attempt))
        return told or about[-1].action is Action.HOLD


@dataclass(slots=True)
class Eyes:
    """An observer that may see an old picture."""

    sim: Simulation
    old: World | None = None
    shown: World | None = None

    def observe(self) -> World:
        sim = self.sim
        world = FakeScheduler(slurm=sim.slurm).observe()
        if self.old is not None and sim.chance(0.06):
            sim.note("stale view")
            self.shown = self.old
            return self.old
        self.old = self.shown = world
        return world

    def stamp(self, job: Job) -> Stamp | None:
        sim = self.sim
        found = sim.slurm.find(job.id)
        sim.looked = sim.slurm.view(found) if found is not None else None
        return sim.looked.stamp if sim.looked else None

    def node(self, name: str) -> Node | None:
        self.sim.looked_node = FakeScheduler(slurm=self.sim.slurm).node(name)
        return self.sim.looked_node

    def accounting(self, job: Job) -> tuple[StepRecord, ...]:
        return ()


@dataclass(slots=True)
class Hands:
    """An actor whose commands get lost, come late, are doubled, or are done without an answer."""

    sim: Simulation

    def commands(self, step: Step) -> tuple[tuple[str, ...], ...]:
        return ()

    def act(self, step: Step) -> Reply:
        sim = self.sim
        sim.judge(step)
        sim.looked = None
        unknown = Reply(kind=ReplyKind.UNKNOWN, text="Unexpected message received")
        if sim.slurm.down or sim.chance(0.08):
            sim.note(f"{step.kind} lost")
            return unknown
        if sim.chance(0.05):
            sim.in_flight.append(step)
            return unknown
        words = sim.apply(step)
        if sim.chance(0.04):
            sim.apply(step)
        if sim.chance(0.06):
            return unknown
        return FakeScheduler(slurm=sim.slurm).classify(words)


def run(seed: int) -> Simulation:
    """One seeded run. Raises Wrong."""
    return Simulation(seed).run()
