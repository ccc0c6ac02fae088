"""The shipped rules: sound, proven, seen by the engine. `recovery rules check` holds the rest in CI."""

from __future__ import annotations

import pytest

from attribution.match import Matcher
from attribution.resources import rules_dir
from attribution.signatures import RuleSet, examine
from attribution.signatures.lint import Bench, Prefilter
from attribution.signatures.proof import prove_all


@pytest.fixture(scope="module")
def shipped() -> RuleSet:
    rules, findings = examine([rules_dir()])
    assert [str(f) for f in findings] == []
    return rules


def test_every_rule_proves_itself(shipped: RuleSet) -> None:
    assert [str(f) for f in prove_all(shipped)] == []


def test_no_pattern_can_backtrack_without_end(shipped: RuleSet) -> None:

    bench = Bench(rules=shipped, engine=Matcher(shipped))
    assert [str(f) for f in Prefilter().check(bench) if f.code == "R015"] == []


def test_every_class_of_the_taxonomy_has_a_family_and_an_action(shipped: RuleSet) -> None:
    assert {c.family for c in shipped.taxonomy.values()} >= {"comm", "gpu_hw", "scheduler", "healthy"}
    assert all(c.means for c in shipped.taxonomy.values())
