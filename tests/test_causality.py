"""The class relation: what explains what, and that it cannot go round."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from attribution import causality, resources
from attribution.model import RuleError
from tests.make import analyzer


@pytest.fixture(scope="module")
def relation() -> causality.Causality:
    return causality.load((resources.rules_dir(),))


def test_hardware_explains_what_its_ranks_print(relation: causality.Causality) -> None:
    assert relation.find("gpu_hw.off_bus", "comm.collective_timeout")
    assert relation.find("comm.collective_timeout", "gpu_hw.off_bus") is None


def test_no_two_classes_explain_each_other_in_any_order(relation: causality.Causality) -> None:
    classes = sorted(analyzer().ruleset.taxonomy)
    for a, b in product(classes, classes):
        there, back = relation.find(a, b), relation.find(b, a)
        assert not (there and back and "any" in (there.order, back.order)), f"{a} and {b} explain each other"


def test_every_pattern_names_a_class(relation: causality.Causality) -> None:
    classes = analyzer().ruleset.taxonomy
    for e in relation.explanations:
        for pattern in (*e.cause, *e.effects):
            assert any(causality.class_matches(pattern, c) for c in classes), pattern


def test_a_wrong_document_says_where(tmp_path: Path) -> None:
    (tmp_path / "causality.yaml").write_text("explains: [{cause: [a.b], effects: [c.d], order: sometimes}]")
    with pytest.raises(RuleError, match=r"explains\[0\]"):
        causality.load((tmp_path,))
