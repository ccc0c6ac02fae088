"""Why, why not, and what would change it."""

from __future__ import annotations

from attribution.model import Action
from attribution.policy import load_policy
from attribution.policy.cases import situation
from attribution.policy.explain import PolicyExplanation, explain
from tests.make import analyzer

TAXONOMY = analyzer().ruleset.taxonomy
POLICY = load_policy()


def explained(**given: object) -> PolicyExplanation:
    s = situation(TAXONOMY, given)
    return explain(s.diagnosis, s.attempt, policy=POLICY, taxonomy=TAXONOMY, history=s.history)


def test_a_guess_about_a_node_says_what_is_missing_for_its_exclusion() -> None:
    got = explained(**{"class": "gpu_hw.off_bus", "status": "hypothesis", "culprit_nodes": ["a"], "nodes": ["a", "b"]})
    assert (got.advice.action, got.wanted) == (Action.RESTART, Action.RESTART_EXCLUDING)
    text = "\n".join(got.sentences())
    assert "guard rail: a node is excluded at status supported or better, this is hypothesis" in text
    assert "would be restart_excluding without a (row first_occurrence) if the diagnosis were established" in text
    assert "not row preempted (none): class scheduler.preempted: is gpu_hw.off_bus" in text


def test_the_row_that_decided_tells_its_conditions_with_what_was_found() -> None:
    got = explained(**{"class": "comm.peer_lost", "status": "hypothesis", "same_root": 2})
    assert got.row == "same_root_again"
    assert "same root without progress at least 2: is 2" in got.held
    assert any(f.action is Action.RESTART and "beyond step 100" in f.change for f in got.flips)
    assert got.never_asked[-1] == "first_occurrence"


def test_an_explanation_is_the_advice_itself() -> None:
    for name in TAXONOMY:
        s = situation(TAXONOMY, {"class": name})
        got = explained(**{"class": name})
        assert got.advice == s.advice(POLICY, TAXONOMY)
        assert all((f.action, f.exclude) != (got.advice.action, got.advice.exclude_nodes) for f in got.flips)
