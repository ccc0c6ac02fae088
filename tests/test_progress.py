"""Numbers and points of progress lines."""

from __future__ import annotations

import math

import pytest

from attribution.progress import number, point, summarise, thin, whole
from tests.make import match, points


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,024", 1024.0),
        ("5.229473E+00", 5.229473),
        ("410.2k", 410200.0),
        ("-3e-4", -3e-4),
        (" 12 of 100", 12.0),
        ("", None),
        ("abc", None),
    ],
)
def test_numbers_as_frameworks_print_them(text: str, value: float | None) -> None:
    assert number(text) == value


def test_nan_and_inf_are_numbers_here_and_no_steps() -> None:
    assert math.isnan(number("nan") or 0.0)
    assert number("inf") == math.inf
    assert whole("inf") is None


def test_a_step_in_milliseconds_is_kept_in_seconds() -> None:
    m = match(
        None,
        signature="progress.megatron.iteration",
        fields={"step": "7", "total_steps": "500", "step_time_ms": "1500.0"},
    )
    p = point(m)
    assert (p.dialect, p.step, p.total_steps, p.step_time_s) == ("megatron", 7, 500, 1.5)


def test_a_sample_keeps_the_first_and_the_last() -> None:
    many = points(range(10_000))
    few = thin(many)
    assert len(few) <= 1100
    assert few[0] == many[0] and few[-1] == many[-1]


def test_the_summary_tells_steps_and_checkpoints_and_that_no_format_is_another_fact() -> None:
    saved = match(
        None, signature="progress.checkpoint.saved", marks=frozenset({"checkpoint_saved"}), fields={"step": "40"}
    )
    p = summarise(points(range(1, 51)), [saved])
    assert (p.first_step, p.last_step, p.last_checkpoint_step, p.total_steps) == (1, 50, 40, 1000)
    assert summarise([], []).dialect is None
