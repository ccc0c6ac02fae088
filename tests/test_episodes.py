"""Who started it: stories of a few lines, each told as real logs tell it."""

from __future__ import annotations

from pathlib import Path

from attribution import causality, resources
from attribution.episodes import build, ordered
from attribution.model import Attempt, AttemptKey, Evidence, Match, Progress, Role
from tests.make import analyzer, evidence_of, match, points

RELATION = causality.load((resources.rules_dir(),))


def episodes(*matches: Match, progress: Progress | None = None):  # type: ignore[no-untyped-def]
    evidence = Evidence(attempt=Attempt(key=AttemptKey(job_id="1")), matches=matches, progress=progress or Progress())
    return build(evidence, analyzer().ruleset, RELATION)


def test_the_victim_that_prints_first_is_not_the_root() -> None:
    victim = match("comm.peer_lost", 10, role=Role.CASCADE)
    cause = match("user_code.key_error", 50)
    (lead, *_) = episodes(victim, cause)
    assert lead.root is cause
    assert lead.cascade == (victim,)


def test_of_two_causes_the_first_in_order_leads() -> None:
    first, second = match("user_code.key_error", 10), match("storage.disk_full", 500)
    assert episodes(first, second)[0].root is first


def test_what_training_survived_is_no_answer() -> None:
    caught = match("user_code.value_error", 5)
    progress = Progress(dialect="megatron", points=points(range(1, 50), first_line=10))
    (only,) = episodes(caught, progress=progress)
    assert only.recovered


def test_steps_that_a_restart_repeats_prove_nothing() -> None:
    died = match("user_code.key_error", 60)
    progress = Progress(
        dialect="megatron", points=(*points(range(1, 50), first_line=1), *points(range(1, 30), first_line=100))
    )
    assert not episodes(died, progress=progress)[0].recovered


def test_ranks_that_tell_the_same_are_folded() -> None:
    told = [
        match("config_env.missing_module", n, place={"rank": n}, text="ModuleNotFoundError: No module named 'x'")
        for n in range(1, 5)
    ]
    (lead,) = episodes(*told)
    assert len(lead.initiating) == 4
    assert list(lead.rank_first) == [1, 2, 3, 4]


def test_teardown_starts_nothing_while_anything_else_is_there() -> None:
    ended = match("unknown.process_killed", 1, role=Role.TEARDOWN, marks=frozenset({"rank_exit"}))
    lost = match("comm.peer_lost", 9, role=Role.CASCADE)
    assert episodes(ended, lost)[0].root is lost
    assert episodes(ended)[0].root is ended
    assert episodes(match("comm.peer_lost", 1, role=Role.TEARDOWN)) == ()


def test_two_that_explain_each_other_leave_the_first() -> None:
    a, b = match("unknown.process_killed", 1), match("scheduler.cancelled", 2)
    assert episodes(a, b)[0].root is a


def test_a_direct_cause_is_nearer_to_the_root_than_what_was_raised_from_it(tmp_path: Path) -> None:
    text = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
OSError: [Errno 28] No space left on device: '/scratch/ckpt/step_100.pt'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
RuntimeError: saving failed
"""
    evidence = evidence_of(tmp_path, text)
    assert build(evidence, analyzer().ruleset, RELATION)[0].root.failure_class == "storage.disk_full"


def test_files_without_clocks_are_ordered_by_name_and_offset() -> None:
    a = match("comm.peer_lost", 3, place={"path": "b.log"})
    b = match("comm.peer_lost", 9, place={"path": "a.log"})
    assert ordered([a, b]) == (b, a)


def test_files_with_clocks_are_ordered_by_time() -> None:
    a = match("comm.peer_lost", 3, place={"path": "b.log", "time_s": 10.0})
    b = match("comm.peer_lost", 9, place={"path": "a.log", "time_s": 20.0})
    assert ordered([b, a]) == (a, b)
