"""Slurm's compact node lists, bounded."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.hostlist import expand
from attribution.model import SchedulerError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-[001-003,7],login1", ("gpu-001", "gpu-002", "gpu-003", "gpu-7", "login1")),
        ("rack[1-2]n[09-10]", ("rack1n09", "rack1n10", "rack2n09", "rack2n10")),
        ("gpu-[001-002]-ib", ("gpu-001-ib", "gpu-002-ib")),
        ("a,a,b", ("a", "b")),
        ("(null)", ()),
        ("", ()),
    ],
)
def test_lists_as_slurm_prints_them(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    ["gpu-[1-", "gpu-]1[", "gpu-[[1]]", "gpu-[a-b]", "gpu-[3-1]", "a;b", "-rf", "a b", "x,", "$(id)", "n[0-99999999]"],
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(SchedulerError):
        expand(text)


def test_brackets_that_multiply_are_refused_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(SchedulerError, match="more than"):
        expand("n[0-9999][0-9999][0-9999]")
    assert time.monotonic() - began < 2


@given(st.text(alphabet="gpu-[]0123456789,.", max_size=40))
def test_any_text_gives_names_or_an_error(text: str) -> None:
    try:
        names = expand(text, limit=1000)
    except SchedulerError:
        return
    assert len(names) <= 1000 and all(name and "[" not in name for name in names)
