"""All answers of the shipped policy, kept in a file that a person can read: a change of policy is a change of that file."""

from __future__ import annotations

from pathlib import Path

from attribution.model import Action, Status
from attribution.policy import load_policy
from attribution.policy.matrix import HISTORIES, matrix, matrix_text
from tests.make import analyzer

GOLDEN = Path(__file__).parent / "matrix.txt"
TAXONOMY = analyzer().ruleset.taxonomy
CELLS = matrix(load_policy(), TAXONOMY)


def test_the_matrix_is_the_one_that_was_reviewed() -> None:
    """To accept a change: `recovery policy show --matrix > tests/policy/matrix.txt`."""
    assert matrix_text(load_policy(), CELLS) == GOLDEN.read_text()


def test_every_class_status_and_history_has_an_answer() -> None:
    assert len(CELLS) == len(TAXONOMY) * len(Status) * len(HISTORIES)
    assert {c.failure_class for c in CELLS} == set(TAXONOMY)


def test_doubt_never_excludes_and_wear_never_restarts() -> None:
    for c in CELLS:
        if c.status in (Status.HYPOTHESIS, Status.UNKNOWN):
            assert c.action is not Action.RESTART_EXCLUDING
        if c.history == "worn":
            assert c.action in (Action.HOLD, Action.NONE)
        if c.failure_class.startswith(("storage.", "data.", "user_code.")):
            assert c.action is not Action.RESTART_EXCLUDING
