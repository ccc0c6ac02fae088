"""Thousands of seeded cluster lives; and the proof that the judge would notice a reconciler that is less careful."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from attribution.reconcile import planning, tick  # noqa: E402
from attribution.reconcile.case import Case  # noqa: E402
from attribution.schedulers.base import Hold  # noqa: E402
from tests.sim import simulation  # noqa: E402
from tests.sim.simulation import Wrong, run  # noqa: E402


@pytest.mark.parametrize("block", range(4))
def test_no_wrong_act_and_all_converge(block: int) -> None:
    for seed in range(block * 500, (block + 1) * 500):
        run(seed)


def test_a_seed_replays_exactly() -> None:
    assert run(7).trace == run(7).trace


def _careless_look(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tick.Reconciler._second_look

    def look(self: tick.Reconciler, step: object) -> str:
        real(self, step)  # type: ignore[arg-type]
        return ""

    monkeypatch.setattr(tick.Reconciler, "_second_look", look)


def _blind_to_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "identify", lambda case: None)


def _blind_to_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    real = planning.locate

    def locate(case: Case) -> Case:
        found = real(case)
        if found.job is not None and found.job.hold is Hold.PERSON:
            return replace(found, job=replace(found.job, hold=Hold.REQUEUE, priority=1))
        return found

    monkeypatch.setattr(planning, "locate", locate)


def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "LIMITS", replace(simulation.LIMITS, settle_s=0.0))


def _reviving(monkeypatch: pytest.MonkeyPatch) -> None:
    real = planning.locate

    def locate(case: Case) -> Case:
        found = real(case)
        if found.job is not None and found.job.state in ("COMPLETED", "CANCELLED"):
            return replace(found, job=replace(found.job, state="FAILED"))
        return found

    def look(self: tick.Reconciler, step: object) -> str:
        real_look(self, step)  # type: ignore[arg-type]
        return ""

    real_look = tick.Reconciler._second_look
    monkeypatch.setattr(planning, "locate", locate)
    monkeypatch.setattr(tick.Reconciler, "_second_look", look)


@pytest.mark.parametrize(
    "damage",
    [_careless_look, _blind_to_attempts, _blind_to_holds, _hasty, _reviving],
    ids=lambda f: f.__name__,
)
def test_the_judge_notices(damage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    damage(monkeypatch)
    with pytest.raises(Wrong):
        for seed in range(1500):
            run(seed)
