"""One round on a fake cluster: observe cannot act, switches, approval, evidence, the loop, undrain."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson
import pytest

from attribution.model import Action, Advice, AttemptKey, Disposition, Exclusion, PolicyError, Status, to_plain
from attribution.policy.optin import OptIn
from attribution.reconcile import Event, Ledger, Limits, Mode, Reason, Reconciler, read_ledger
from attribution.reconcile.documents import advice_of, complete, parse_key
from attribution.reconcile.evidence import expand_pattern, log_paths, save
from attribution.reconcile.loop import Loop, metrics
from attribution.reconcile.undrain import undrain
from attribution.schedulers.base import Job, Step, StepKind
from attribution.schedulers.fake import FakeScheduler, FakeSlurm
from attribution.schedulers.fake_client import FakeClient
from attribution.schedulers.slurm import SlurmObserver, commands_of

LIMITS = Limits(settle_s=1.0, backoff_s=0.5)


@dataclass
class Bench:
    folder: Path
    slurm: FakeSlurm = field(default_factory=FakeSlurm)

    def __post_init__(self) -> None:
        self.slurm.submit(fates=((0.5, "FAILED"),), node_count=2)
        for _ in range(30):
            self.slurm.advance(0.1)
        self.scheduler = FakeScheduler(slurm=self.slurm)
        self.job = self.scheduler.observe().jobs["1"]
        self.advice = Advice(
            id="adv-1",
            attempt=AttemptKey(job_id="1", cluster="lab", submit_time_s=self.job.submit_time_s),
            action=Action.RESTART_EXCLUDING,
            exclude=(Exclusion(node=self.job.nodes[0], because="Xid 79"),),
            issued_at_s=self.slurm.now_s,
            status=Status.ESTABLISHED,
        )

    def reconciler(self, ledger: Ledger, act: bool = True, **more: object) -> Reconciler:
        return Reconciler(
            observer=self.scheduler,
            actor=self.scheduler if act else None,
            ledger=ledger,
            commands=commands_of,
            now=lambda: self.slurm.now_s,
            **{"limits": LIMITS, **more},  # type: ignore[arg-type]
        )

    def rounds(self, reconciler: Reconciler, count: int = 40) -> list[str]:
        told: list[str] = []
        for _ in range(count):
            seen = reconciler.tick([self.advice])
            told += [str(done.step.kind) for done in seen.steps] + [str(v.reason) for v in seen.verdicts]
            self.slurm.advance(0.3)
        return list(dict.fromkeys(told))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_whole_restart(bench: Bench) -> None:
    with Ledger(bench.folder) as ledger:
        told = bench.rounds(bench.reconciler(ledger))
    assert [word for word in told if word != "BACKING_OFF"] == [
        "SAVE_EVIDENCE",
        "SLURM_REQUEUE_HOLD",
        "SLURM_UPDATE_CONSTRAINTS",
        "SLURM_MARK",
        "SLURM_RELEASE",
        "SLURM_START_NOW",
        "SETTLING",
        "DESIRED_STATE_OBSERVED",
    ]
    job = bench.slurm.jobs[1]
    assert job.state == "RUNNING" and job.excluded == bench.job.nodes[:1] and job.restart == 1
    entries = list(read_ledger(bench.folder))
    intents = [e for e in entries if e.event is Event.INTENT]
    assert all(any(r.intent == e.seq for r in entries) for e in intents), "every intent has its answer"
    assert entries[-1].disposition is Disposition.CONVERGED


class Tripwire:
    """Anything that would change the cluster is an error."""

    def __init__(self, slurm: FakeSlurm) -> None:
        for name in ("do_requeue", "do_hold", "do_release", "do_update_job", "do_cancel", "do_node"):
            setattr(type(self), name, self._trip)
        self.__dict__["slurm"] = slurm

    def _trip(self, *args: object, **more: object) -> str:
        raise AssertionError("observe mode touched the cluster")

    def __getattr__(self, name: str) -> object:
        return getattr(self.__dict__["slurm"], name)


def test_observe_mode_cannot_act(bench: Bench) -> None:
    """Observe is the default; it holds no actor, its observer no command, and the cluster stays bit for bit as it was."""
    scheduler = FakeScheduler(slurm=Tripwire(bench.slurm))  # type: ignore[arg-type]
    client = FakeClient(slurm=bench.slurm)
    observer = SlurmObserver(runner=client, opt_in=lambda comment: OptIn(act=True), now=lambda: bench.slurm.now_s)
    assert not hasattr(observer, "act")
    before = bench.scheduler.observe()
    with Ledger(bench.folder) as ledger:
        for eyes in (scheduler, observer):
            reconciler = Reconciler(
                observer=eyes, ledger=ledger, limits=LIMITS, commands=commands_of, now=lambda: bench.slurm.now_s
            )
            assert reconciler.actor is None and reconciler.mode is Mode.OBSERVE
            for _ in range(3):
                seen = reconciler.tick([bench.advice])
                assert all(done.reply is None for done in seen.steps)
    assert bench.scheduler.observe() == before
    entries = list(read_ledger(bench.folder))
    assert {e.event for e in entries} == {Event.WOULD}
    steps = [str(e.step) for e in entries]
    assert steps[:6] == [
        "SAVE_EVIDENCE",
        "SLURM_REQUEUE_HOLD",
        "SLURM_UPDATE_CONSTRAINTS",
        "SLURM_MARK",
        "SLURM_RELEASE",
        "SLURM_START_NOW",
    ]
    assert not (bench.folder / "evidence").exists()


def test_what_observe_wrote_does_not_count_as_done(bench: Bench) -> None:
    with Ledger(bench.folder) as ledger:
        bench.rounds(bench.reconciler(ledger, act=False), 2)
        assert "SLURM_REQUEUE_HOLD" in bench.rounds(bench.reconciler(ledger))


def test_the_kill_switch_stops_before_the_next_step(bench: Bench) -> None:
    switch = bench.folder / "STOP"
    with Ledger(bench.folder / "ledger") as ledger:
        reconciler = bench.reconciler(ledger, kill_switch=switch)
        reconciler.tick([bench.advice])
        switch.touch()
        assert bench.rounds(reconciler, 3) == ["KILL_SWITCH"]
        assert bench.slurm.jobs[1].state == "FAILED"
        switch.unlink()
        assert "DESIRED_STATE_OBSERVED" in bench.rounds(reconciler)


def test_the_kill_switch_thrown_while_a_person_thinks(bench: Bench) -> None:
    switch = bench.folder / "STOP"

    def approve(step: Step, commands: object) -> bool:
        switch.touch()
        return True

    with Ledger(bench.folder / "ledger") as ledger:
        reconciler = bench.reconciler(ledger, kill_switch=switch, approve=approve)
        reconciler.tick([bench.advice])
        bench.slurm.advance(1)
        seen = reconciler.tick([bench.advice])
    assert [v.reason for v in seen.verdicts] == [Reason.KILL_SWITCH]
    assert bench.slurm.jobs[1].state == "FAILED"


def test_a_person_approves_each_step(bench: Bench) -> None:
    asked: list[str] = []

    def approve(step: Step, commands: tuple[tuple[str, ...], ...]) -> bool:
        asked.append(" ".join(commands[0]))
        return True

    with Ledger(bench.folder) as ledger:
        bench.rounds(bench.reconciler(ledger, approve=approve))
    assert asked[0] == "scontrol requeuehold 1"
    assert asked[1] == f"scontrol update JobId=1 ExcNodeList={bench.job.nodes[0]}"
    assert len(asked) == 5


def test_no_answer_is_a_wait_and_a_no_is_final(bench: Bench) -> None:
    answers: list[bool | None] = [None, None, False]
    with Ledger(bench.folder) as ledger:
        reconciler = bench.reconciler(ledger, approve=lambda step, commands: answers.pop(0))
        told = bench.rounds(reconciler, 8)
    assert told == ["SAVE_EVIDENCE", "AWAITING_APPROVAL", "DECLINED"]
    assert bench.slurm.jobs[1].state == "FAILED" and not answers


def test_what_changed_while_a_person_thought_stops_the_step(bench: Bench) -> None:
    def approve(step: Step, commands: object) -> bool:
        bench.slurm.do_cancel("alice", "1")
        bench.slurm.do_requeue("alice", "1")
        return True

    with Ledger(bench.folder) as ledger:
        reconciler = bench.reconciler(ledger, approve=approve)
        reconciler.tick([bench.advice])
        bench.slurm.advance(1)
        seen = reconciler.tick([bench.advice])
    assert [v.reason for v in seen.verdicts] == [Reason.SECOND_LOOK_DIFFERS]
    assert bench.slurm.jobs[1].restart == 1 and bench.slurm.jobs[1].hold == ""


def test_without_rights_for_the_mark_the_rest_is_done(bench: Bench) -> None:
    bench.scheduler = FakeScheduler(slurm=bench.slurm, user="alice")
    with Ledger(bench.folder) as ledger:
        told = bench.rounds(bench.reconciler(ledger))
    assert told[-1] == "DESIRED_STATE_OBSERVED" and bench.slurm.jobs[1].admin_comment == ""


# evidence


def job_at(folder: Path, **more: object) -> Job:
    plain = Job(id="7", raw_id=7, state="FAILED", submit_time_s=1, restart=0, user="alice", uid=os.getuid())
    return replace(plain, workdir=str(folder), name="train", batch_host="gpu-001.site", **more)  # type: ignore[arg-type]


def test_patterns_of_log_names() -> None:
    job = job_at(Path("/w"), array_id=5, array_task=3)
    assert expand_pattern("%x-%j_%A_%a-%u-%N-%t-%s-%5j-%%.out", job) == "train-7_5_3-alice-gpu-001-0-batch-00007-%.out"
    assert log_paths(job) == (Path("/w/slurm-5_3.out"),)
    assert log_paths(job_at(Path("/w"), stdout="/dev/null")) == ()
    assert log_paths(job_at(Path("/w"), stdout="a-%j", stderr="b")) == (Path("/w/a-7"), Path("/w/b"))


def test_evidence_holds_record_and_log(tmp_path: Path) -> None:
    (tmp_path / "slurm-7.out").write_text("Traceback\n")
    key = AttemptKey(job_id="../../7", cluster="a/b", submit_time_s=1)
    saved = save(tmp_path / "evidence", job_at(tmp_path), key, (), 5.0)
    assert saved.files == ("record.json", "log0.txt") and saved.missing == ()
    assert saved.folder.parent == tmp_path / "evidence", "names of others cannot lead elsewhere"
    record = orjson.loads((saved.folder / "record.json").read_bytes())
    assert record["job"]["state"] == "FAILED" and record["schema"] == "recovery.evidence/1"
    assert (saved.folder / "log0.txt").read_text() == "Traceback\n"
    assert save(tmp_path / "evidence", job_at(tmp_path), key, (), 6.0) == saved


@pytest.mark.parametrize("trap", ["link", "fifo", "folder", "owner", "missing"])
def test_only_regular_files_of_the_jobs_user_are_copied(tmp_path: Path, trap: str) -> None:
    log, uid = tmp_path / "slurm-7.out", os.getuid()
    if trap == "link":
        (tmp_path / "secret").write_text("secret")
        log.symlink_to(tmp_path / "secret")
    elif trap == "fifo":
        os.mkfifo(log)
    elif trap == "folder":
        log.mkdir()
    elif trap == "owner":
        log.write_text("secret")
        uid += 1
    saved = save(tmp_path / "evidence", job_at(tmp_path, uid=uid), AttemptKey(job_id="7"), (), 5.0)
    assert saved.files == ("record.json",) and len(saved.missing) == 1


def test_a_huge_log_keeps_head_and_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attribution.reconcile import evidence

    monkeypatch.setattr(evidence, "MAX_LOG_BYTES", 1000)
    monkeypatch.setattr(evidence, "_HEAD_BYTES", 100)
    (tmp_path / "slurm-7.out").write_bytes(b"a" * 5000 + b"z" * 5000)
    saved = save(tmp_path / "evidence", job_at(tmp_path), AttemptKey(job_id="7"), (), 5.0)
    copied = (saved.folder / "log0.txt").read_bytes()
    assert copied.startswith(b"a" * 100 + b"\n[recovery: 9000 bytes left out here]\n") and copied.endswith(b"z" * 900)


def test_evidence_that_cannot_be_written_stops_the_restart(bench: Bench) -> None:
    def full(*args: object) -> object:
        raise OSError("No space left on device")

    with Ledger(bench.folder) as ledger:
        told = bench.rounds(bench.reconciler(ledger, save=full), 6)
    assert "SLURM_REQUEUE_HOLD" not in told and bench.slurm.jobs[1].state == "FAILED"


# documents and identity


def test_advice_as_a_document(bench: Bench) -> None:
    document = orjson.loads(orjson.dumps(to_plain(bench.advice)))
    assert advice_of(document) == bench.advice
    assert advice_of({**document, "attempt": str(bench.advice.attempt)}) == bench.advice
    for wrong in ({}, {**document, "action": "explode"}, {**document, "attempt": "x"}, {**document, "exclude": [1]}):
        with pytest.raises(PolicyError):
            advice_of(wrong)


@pytest.mark.parametrize("text", ["lab/7@1796000000.0", "7.3", "lab/61_5@1.12", "61_5.0", "train-7.out.0"])
def test_keys_are_read_as_they_are_printed(text: str) -> None:
    assert str(parse_key(text)) == text


def test_an_attempt_from_logs_gets_its_submit_time_only_if_it_is_surely_that_one(bench: Bench) -> None:
    world = bench.scheduler.observe()
    job = replace(world.jobs["1"], workdir="/w", stdout="t-%j.out")
    world = replace(world, jobs={"1": job})
    bare = replace(bench.advice, attempt=AttemptKey(job_id="1"))
    assert complete(bare, ["/w/t-1.out"], world, ()).attempt == bench.advice.attempt
    assert complete(bare, ["/w/other.out"], world, ()) == bare
    assert complete(replace(bare, issued_at_s=1.0), ["/w/t-1.out"], world, ()).attempt.submit_time_s is None
    later = replace(world, jobs={"1": replace(job, restart=1)})
    assert complete(bare, ["/w/t-1.out"], later, ()) == bare
    with Ledger(bench.folder) as ledger:
        bench.reconciler(ledger).tick([bench.advice])
        assert complete(bare, [], later, ledger.about("adv-1")).attempt == bench.advice.attempt, (
            "as the ledger calls it"
        )


# loop, metrics, undrain


def test_the_loop_keeps_its_floor(bench: Bench) -> None:
    slept: list[float] = []
    ticking = [0.0]

    def clock() -> float:
        ticking[0] += 0.01
        return ticking[0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        bench.slurm.advance(seconds)

    with Ledger(bench.folder) as ledger:
        loop = Loop(
            reconciler=bench.reconciler(ledger),
            load=lambda world: [bench.advice],
            interval_s=0.0,
            clock=clock,
            sleep=sleep,
        )
        last = loop.run(until_settled=True)
        text = metrics(loop, {"squeue": 3}, last)
        loop.look_s = 3.0
        assert loop.pause_s(last) == pytest.approx(15.0), "a slow controller is asked less often"
        loop.look_s = 0.01
        assert loop.pause_s(last) == 2.0, "idle: never faster than every two seconds"
    assert last.verdicts[0].disposition is Disposition.CONVERGED
    assert min(slept) >= 0.2
    assert 'recovery_scheduler_calls_total{program="squeue"} 3' in text
    assert 'recovery_steps_total{step="SLURM_RELEASE",answer="accepted"} 1' in text
    assert 'recovery_advice{disposition="CONVERGED",reason="DESIRED_STATE_OBSERVED"} 1' in text


def test_undrain_takes_back_only_our_own(bench: Bench) -> None:
    slurm = bench.slurm
    slurm.do_node("root", "gpu-001", "DRAIN", "recovery:adv-1 Xid 79")
    slurm.do_node("root", "gpu-002", "DRAIN", "waiting for parts")
    with Ledger(bench.folder) as ledger:
        told = {name: undrain(name, bench.scheduler, bench.scheduler, ledger) for name in (*slurm.nodes, "x")}
    assert told["gpu-001"] == (True, "undrained")
    assert told["gpu-002"] == (False, "drained by somebody else, left alone")
    assert told["gpu-003"] == (True, "is not drained")
    assert told["x"] == (False, "no such node")
    assert not slurm.nodes["gpu-001"].drained and slurm.nodes["gpu-002"].drained
    assert [e.step for e in read_ledger(bench.folder)] == [StepKind.UNDRAIN, StepKind.UNDRAIN]
