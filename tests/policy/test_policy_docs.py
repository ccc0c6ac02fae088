"""The guide's own policy is clean, and the guide names every condition and every code."""

from __future__ import annotations

import re
from pathlib import Path

from attribution.policy.document import When, parse_policy
from attribution.policy.lint import CODES, check_policy
from tests.make import analyzer

GUIDE = (Path(__file__).parents[2] / "docs/how-to/write-a-policy.md").read_text()


def test_the_guides_policy_is_clean() -> None:
    found = re.search(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    policy = parse_policy(found[1].encode(), "guide.yaml")
    assert check_policy(policy, analyzer().ruleset.taxonomy) == ()


def test_every_condition_and_code_is_named() -> None:
    for name in When.__dataclass_fields__:
        assert f"`{'class' if name == 'classes' else name}`" in GUIDE
    for code, (slug, _) in CODES.items():
        assert f"| {code} {slug}" in GUIDE
