"""After a restart: was the right checkpoint loaded, and what was lost?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.policy.past import chains, records
from attribution.policy.receipt import Receipt, Resumed, receipt, receipts
from tests.policy.make import frame, row

FIRST: dict[str, Any] = {"first_step": 1, "last_step": 101, "last_checkpoint_step": 80, "loaded_checkpoint_step": None}


def of(after: dict[str, Any], first: dict[str, Any] | None = None) -> Receipt:
    (chain,) = chains(records(frame(row(0, **(FIRST | (first or {}))), row(1, **after))))
    (got,) = receipts(chain)
    return got


@pytest.mark.parametrize(
    ("after", "expected", "loaded"),
    [
        ({"loaded_checkpoint_step": 80, "first_step": 81, "last_step": 300}, Resumed.NEWEST, 80),
        ({"loaded_checkpoint_step": 40, "first_step": 41, "last_step": 300}, Resumed.OLDER, 40),
        ({"loaded_checkpoint_step": 0, "first_step": 1, "last_step": 300}, Resumed.FROM_ZERO, 0),
        # it says nothing of checkpoints: its first step tells
        ({"first_step": 81, "last_step": 300}, Resumed.NEWEST, 80),
        ({"first_step": 41, "last_step": 300}, Resumed.OLDER, 41),
        ({"first_step": 1, "last_step": 300}, Resumed.FROM_ZERO, 0),
        ({"first_step": None, "last_step": None}, Resumed.UNKNOWN, None),
    ],
)
def test_what_it_resumed_from(after: dict[str, Any], expected: Resumed, loaded: int | None) -> None:
    got = of(after)
    assert (got.resumed, got.loaded_step, got.should_step) == (expected, loaded, 80)
    assert got.flagged is (expected in (Resumed.OLDER, Resumed.FROM_ZERO))


def test_the_loss_is_counted_in_steps_and_gpu_hours() -> None:
    got = of({"loaded_checkpoint_step": 80, "first_step": 81, "last_step": 300})
    # 16 GPUs for an hour made 100 steps: 0.16 GPU-hours a step
    assert got.steps_redone == 21
    assert got.gpu_hours_lost == pytest.approx(21 * 0.16)
    assert got.idle_s == 400.0
    assert "resumed from checkpoint 80, the newest; 21 steps done again, 3.4 GPU-hours lost" in got.sentence()


def test_a_silent_restart_shouts() -> None:
    got = of({"first_step": 1, "last_step": 50})
    assert "SILENT RESTART AT STEP 0, though checkpoint 80 was there" in got.sentence()
    assert got.steps_redone == 50  # so far; the rest is lost as well
    assert got.gpu_hours_lost == pytest.approx(101 * 0.16)


def test_without_a_checkpoint_a_new_beginning_is_right() -> None:
    got = of({"first_step": 1, "last_step": 50}, {"last_checkpoint_step": None})
    assert got.resumed is Resumed.NOTHING_SAVED and not got.flagged


def test_a_checkpoint_of_two_attempts_ago_still_counts() -> None:
    (chain,) = chains(
        records(
            frame(
                row(0, **FIRST),
                row(1, first_step=None, last_step=None),
                row(2, loaded_checkpoint_step=0, first_step=1, last_step=20),
            )
        )
    )
    assert [r.resumed for r in receipts(chain)] == [Resumed.UNKNOWN, Resumed.FROM_ZERO]


def test_the_first_attempt_has_no_receipt() -> None:
    (chain,) = chains(records(frame(row(0))))
    assert receipts(chain) == ()
    with pytest.raises(ValueError, match="restarted"):
        receipt((), chain[0])


STEPS = st.one_of(st.none(), st.integers(0, 500))


@given(STEPS, STEPS, STEPS, STEPS, STEPS)
def test_nothing_is_negative_and_every_receipt_has_a_sentence(
    saved: int | None, reached: int | None, loaded: int | None, first: int | None, last: int | None
) -> None:
    got = of(
        {"loaded_checkpoint_step": loaded, "first_step": first, "last_step": last},
        {"last_checkpoint_step": saved, "last_step": reached},
    )
    assert (got.steps_redone or 0) >= 0 and (got.gpu_hours_lost or 0.0) >= 0.0
    assert (got.gpu_hours_redone or 0.0) <= (got.gpu_hours_lost or 0.0) + 1e-9
    assert got.sentence().startswith(got.after)
    if got.resumed is Resumed.FROM_ZERO:
        assert got.should_step is not None
