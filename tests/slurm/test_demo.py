"""The whole story, as the demo plays it: fault, diagnosis, Advice, requeue elsewhere, checkpoint, end."""

from __future__ import annotations

import pytest

from attribution.model import Action
from demo import run
from demo.lab import Lab

pytestmark = pytest.mark.slurm


def test_a_broken_gpu_is_seen_avoided_and_the_training_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with Lab(nodes=8) as lab:
        story = run.play(lab)
    told = capsys.readouterr().out
    assert story.result is not None
    assert story.result.advice.action is Action.RESTART_EXCLUDING
    assert story.result.advice.exclude_nodes == (story.bad_node,)
    assert story.result.diagnosis.culprit.nodes == (story.bad_node,)
    assert "second attempt   loaded step 20" in told and "ended completed at step 60" in told
    times = story.document()
    assert times["detect_s"] < 2  # type: ignore[operator]
    assert times["act_without_slurms_waits_s"] < 10  # type: ignore[operator]
