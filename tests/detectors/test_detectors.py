"""Findings from timed facts, on simulated runs."""

from __future__ import annotations

import math
from dataclasses import replace

from attribution.detectors import divergence, slowdown, stopped
from attribution.model import Attempt, AttemptKey, Evidence, Outcome, Progress
from tests.make import match, points


def run(pts, *matches, end: float | None = None) -> Evidence:  # type: ignore[no-untyped-def]
    attempt = Attempt(key=AttemptKey(job_id="1"), end_time_s=end)
    return Evidence(attempt=attempt, matches=matches, progress=Progress(dialect="megatron", points=tuple(pts)))


def test_a_run_that_stops_long_before_its_end_hangs() -> None:
    limit = match("scheduler.time_limit", 900, marks=frozenset({"time_limit"}), place={"time_s": 5100.0})
    (found,) = stopped.detect(run(points(range(100)), limit))
    assert (found.outcome, found.failure_class) == (Outcome.HUNG, "hang.no_progress")


def test_a_run_that_works_to_its_end_does_not() -> None:
    limit = match("scheduler.time_limit", 900, marks=frozenset({"time_limit"}), place={"time_s": 102.0})
    assert stopped.detect(run(points(range(100)), limit)) == ()


def test_two_clocks_an_hour_apart_are_no_hang() -> None:
    limit = match("scheduler.time_limit", 900, marks=frozenset({"time_limit"}), place={"time_s": 3702.0})
    assert stopped.detect(run(points(range(100)), limit)) == ()


def test_long_evaluations_are_part_of_the_rhythm() -> None:
    slow = [*points(range(50)), *points(range(50, 60), start=4050.0, first_line=60)]
    limit = match("scheduler.time_limit", 900, marks=frozenset({"time_limit"}), place={"time_s": 8000.0})
    assert stopped.detect(run(slow, limit)) == ()


def test_a_loss_that_never_becomes_finite_again_spoiled_the_run() -> None:
    good = points(range(20))
    bad = [replace(p, loss=math.nan) for p in points(range(20, 40), first_line=30)]
    (found,) = divergence.detect(run([*good, *bad]))
    assert found.failure_class == "numerics.nan_loss"
    assert found.match is not None and found.match.place.line == 30


def test_one_skipped_step_is_no_divergence() -> None:
    pts = list(points(range(40)))
    pts[20] = replace(pts[20], loss=math.inf)
    assert divergence.detect(run(pts)) == ()


def test_steps_that_become_and_stay_slower_are_a_slowdown() -> None:
    (found,) = slowdown.detect(
        run([*points(range(60)), *points(range(60, 120), seconds=4.0, start=60.0, first_line=61)])
    )
    assert found.outcome is Outcome.SLOW


def test_single_long_steps_are_none() -> None:
    pts = [replace(p, step_time_s=30.0 if i % 10 == 0 else 1.0) for i, p in enumerate(points(range(100)))]
    assert slowdown.detect(run(pts)) == ()
