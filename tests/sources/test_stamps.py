"""Every shape of time stamp, to seconds since the epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.sources.stamps import stamp

AT = 1749871317.0  # 2025-06-14T03:21:57Z


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2025-06-14T03:21:57Z", AT),
        ("2025-06-14 05:21:57+02:00 x", AT),
        ("2025-06-14T05:21:57.250+0200 x", AT + 0.25),
        ("[2025-06-14 03:21:57,123] [INFO]", AT + 0.123),
        ("2025/06/14 03:21:57 x", AT),
        ("STARTING TIMING RUN AT 2025-06-14 03:21:57 PM", AT + 12 * 3600),
        ("I2025-06-14 03:21:57,717 15665 distributed.py:149] Starting", AT + 0.717),
        ("E0614 03:21:57.123000 140 torch/x.py:1]", AT + 0.123),
        ("[E614 03:21:57.123456789 x.cpp:1]", AT + 0.123456789),
        ("x3200:0:[rank0]:[E614 03:21:57.5 x.cpp:1]", AT + 0.5),
        ("Jun 14 03:21:57 host kernel: x", AT),
        ("[Sat Jun 14 03:21:57 2025] x", AT),
        ("Sat Jun 14 03:21:57 UTC 2025", AT),
        ("Sat Jun 14 03:21:57 AM UTC 2025", AT),
        ("INFO 06-14 03:21:57 engine.py:12] x", AT),
        ("[06/14/25 03:21:57] INFO x", AT),
        (':::MLLOG {"namespace": "", "time_ms": 1749871317123, "event_type": "X"', AT + 0.123),
        ("srun: error: *** JOB 1 ON a CANCELLED AT 2025-06-14T03:21:57 DUE TO", AT),
        ("loading /runs/exp-2025-06-14_03:21:57/ckpt", None),
        ("2025-02-30 03:21:57 no such day", None),
        ("eta: 0:06:43 time: 0.11", None),
        ("10:20:30 starting", None),
    ],
)
def test_stamp(text: str, seconds: float | None) -> None:
    assert stamp(text, 2025) == (pytest.approx(seconds) if seconds is not None else None)


def test_the_year_is_the_one_nearest_to_a_neighbour() -> None:
    new_year = 1767225600.0  # 2026-01-01
    assert stamp("Dec 31 23:59:59 h kernel: x", 2026, new_year) == new_year - 1
    assert stamp("Jan  1 00:00:01 h kernel: x", 2025, new_year - 1) == new_year + 1


@given(st.text(max_size=120))
def test_any_text_is_looked_at(text: str) -> None:
    stamp(text, 2025)
    stamp("2025-06-14 03:21:57" + text, 2025, 0.0)
