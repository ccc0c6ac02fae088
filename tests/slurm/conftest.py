"""A private real Slurm for the tests of this folder; see demo/lab.py. Skipped where it cannot be had."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from demo import lab as labs  # noqa: E402
from demo.lab import Lab, LabError  # noqa: E402

_TIMED_OUT: list[tuple[Lab, str]] = []


def _up(accounting: bool) -> Iterator[Lab]:
    try:
        labs.ensure((*labs.CORE, *labs.ACCOUNTING) if accounting else labs.CORE)
    except LabError as error:
        pytest.skip(f"no real Slurm here: {error}")
    with Lab(accounting=accounting) as lab, Lab(nodes=1) as patient:
        # Slurm's unit is the minute: started now, it is over when the other tests are; alone, because they are rough
        _TIMED_OUT[:] = [(patient, patient.submit("sleep 300", "-N1", "-t", "1"))]
        yield lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Four nodes, slurmctld, slurmdbd with MariaDB."""
    yield from _up(accounting=True)


@pytest.fixture(scope="session")
def timed_out(lab: Lab) -> tuple[Lab, str]:
    """A job that runs into its limit of a minute, and its cluster."""
    return _TIMED_OUT[0]


@pytest.fixture
def crashing_lab() -> Iterator[Lab]:
    """A small cluster of its own for tests that kill its controller."""
    try:
        labs.ensure(labs.CORE)
    except LabError as error:
        pytest.skip(f"no real Slurm here: {error}")
    with Lab(nodes=3, message_timeout_s=2) as lab:
        yield lab
