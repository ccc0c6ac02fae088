from __future__ import annotations

import re
from dataclasses import replace

from attribution.report.html.fleet import Row
from attribution.report.metrics import exposition

FAILED = Row(
    id="1.0", outcome="failed", failure_class="gpu_hw.off_bus", domain="infrastructure", status="established", confidence=0.9,
    gpus=8, start_s=0.0, end_s=7200.0, action="restart_excluding",
)  # fmt: skip
DONE = Row(id="2.0", outcome="completed", failure_class=None, domain="none", status="established", confidence=1.0)


def test_counts_are_told_in_prometheus_words():
    text = exposition([FAILED, DONE])
    assert 'recovery_attempts{outcome="failed"} 1\n' in text
    assert 'recovery_diagnoses{class="gpu_hw.off_bus",domain="infrastructure",status="established"} 1\n' in text
    assert 'recovery_failed_gpu_hours{class="gpu_hw.off_bus",domain="infrastructure"} 16.0\n' in text
    assert "recovery_last_end_time_seconds 7200.0\n" in text


def test_every_line_is_well_formed_whatever_a_class_is_called():
    text = exposition([replace(FAILED, failure_class='a"b\\c\nd')])
    line = re.compile(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="([^"\\\n]|\\.)*"(,\w+="([^"\\\n]|\\.)*")*\})? \S+')
    assert all(line.fullmatch(x) for x in text.splitlines())


def test_an_empty_store_has_an_exposition_too():
    assert "recovery_gpu_hours 0\n" in exposition([])
