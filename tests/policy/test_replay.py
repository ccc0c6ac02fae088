"""The backtest: what a policy would have advised, and what really happened next."""

from __future__ import annotations

from typing import Any

import pytest

from attribution.model import Action
from attribution.policy import Policy, load_policy
from attribution.policy.document import parse_policy
from attribution.policy.past import Became, records
from attribution.policy.replay import Replay, replay
from tests.make import analyzer
from tests.policy.make import frame, row

TAXONOMY = analyzer().ruleset.taxonomy


def always(action: str) -> Policy:
    text = f"rows: [{{id: only, action: {action}}}]\nlimits: {{max_restarts: 1000, max_failures_without_progress: 1000, max_same_root_without_progress: 1000}}"
    return parse_policy(text.encode(), "always.yaml")


def run(*rows: dict[str, Any], new: str = "hold", old: str | None = None, **more: Any) -> Replay:
    return replay(records(frame(*rows)), always(new), taxonomy=TAXONOMY, old=always(old) if old else None, **more)


STUCK = (row(0), row(1))  # the second died of the same root at the same step
PASSED = (row(0), row(1, last_step=500))


def test_a_stop_before_a_useless_attempt_saves_its_gpu_hours() -> None:
    got = run(*STUCK)
    assert (got.attempts, got.judged) == (2, 1)  # of the last one nothing is known
    assert got.new.saved_hours == 16.0 and got.new.forgone_hours == 0.0
    assert str(got.new.wrong_stops).startswith("0 of 1")


def test_a_stop_before_an_attempt_that_passed_is_wrong() -> None:
    got = run(*PASSED)
    assert got.new.wrong_stops.hits == 1
    assert got.new.forgone_hours == 16.0
    assert got.new.rows[0].wrong == 1


def test_a_restart_into_the_same_root_is_waste() -> None:
    got = run(*STUCK, new="restart")
    assert got.new.wasted_hours == 16.0
    assert (got.new.wrong_restarts.hits, got.new.wrong_restarts.trials) == (1, 1)


def test_leaving_it_to_the_scheduler_is_not_judged() -> None:
    got = run(*PASSED, new="none")
    assert got.new.wrong_stops.trials == got.new.wrong_restarts.trials == 0
    assert str(got.new.wrong_stops) == "none judged"


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        ({"nodes": ["gpu-001", "gpu-002"], "last_step": 500}, (1, 1)),  # it passed on the node
        ({"nodes": ["gpu-001", "gpu-003"], "last_step": 500}, (0, 1)),  # it passed without
        ({"nodes": ["gpu-001", "gpu-002"], "last_step": 100}, (0, 1)),  # it died again on it
        ({"nodes": [], "last_step": 500}, (0, 0)),  # nobody knows
    ],
)
def test_exclusions_are_judged_by_where_the_successor_ran(after: dict[str, Any], wrong: tuple[int, int]) -> None:
    first = row(0, culprit_nodes=["gpu-002"]) | {"domain": "infrastructure", "class": "gpu_hw.off_bus"}
    last = {"outcome": "completed"} if after["last_step"] == 500 else first
    got = run(first, row(1) | last | after | {"attempt_id": "4242@1000.1", "restart": 1}, new="restart_excluding")
    share = got.new.wrong_exclusions
    assert (share.hits, share.trials) == wrong


def test_caps_are_replayed_in_the_order_of_time() -> None:
    rows = [
        row(0, job=str(i), culprit_nodes=["gpu-002"], end_time_s=4600.0 + i)
        | {"domain": "infrastructure", "class": "gpu_hw.off_bus"}
        for i in range(20)
    ]
    got = run(*rows, new="restart_excluding")
    # eight per partition are let through, the rest restart without
    assert dict(got.new.actions) == {Action.RESTART: 12, Action.RESTART_EXCLUDING: 8}
    far = [r | {"end_time_s": 4600.0 + 90_000.0 * i} for i, r in enumerate(rows)]
    assert dict(run(*far, new="restart_excluding").new.actions) == {Action.RESTART_EXCLUDING: 20}


def test_differences_come_biggest_first_with_their_gain() -> None:
    small = [r | {"job_id": "7", "attempt_id": f"7.{i}", "gpus": 2} for i, r in enumerate(STUCK)]
    got = run(*STUCK, *small, new="hold", old="restart")
    assert got.changed == 4
    first = got.differences[0]
    assert (first.new, first.old, first.became) == (Action.HOLD, Action.RESTART, Became.SAME_ROOT)
    assert (first.gpu_hours, first.gain_hours) == (16.0, 16.0)
    assert [d.gpu_hours for d in got.differences] == sorted((d.gpu_hours for d in got.differences), reverse=True)


def test_since_limits_what_is_judged_and_keeps_what_was_before() -> None:
    rows = [row(i) for i in range(4)]
    got = replay(records(frame(*rows)), load_policy(), taxonomy=TAXONOMY, since_s=4600.0 + 4000.0 * 2)
    assert got.attempts == 2
    assert dict(got.new.actions) == {Action.HOLD: 2}  # two attempts before by the same root are remembered


def test_a_policy_against_itself_differs_nowhere() -> None:
    got = replay(
        records(frame(*STUCK, *[r | {"job_id": "9"} for r in PASSED])),
        load_policy(),
        taxonomy=TAXONOMY,
        old=load_policy(),
    )
    assert got.old == got.new and got.changed == 0 and got.differences == ()


def test_well_attempts_are_not_replayed() -> None:
    assert run(row(0, outcome="completed"), row(1, outcome="cancelled")).attempts == 0
