"""The lint finds what can never matter, and says so once."""

from __future__ import annotations

import pytest

from attribution.policy import load_policy
from attribution.policy.document import parse_policy
from attribution.policy.lint import CODES, check_policy
from tests.make import analyzer

TAXONOMY = analyzer().ruleset.taxonomy
TESTS = "tests: [{name: t, given: {class: comm.peer_lost}, expect: restart}]"


def codes(rows: str, tests: str = TESTS) -> list[tuple[str, str]]:
    policy = parse_policy(f"policy: site\nrows:\n{rows}\n{tests}\n".encode(), "site.yaml")
    return [(f.code, f.where) for f in check_policy(policy, TAXONOMY) if f.code != "P020"]


LAST = "  - {id: rest, action: taxonomy}"


def test_the_shipped_policy_is_clean() -> None:
    assert check_policy(load_policy(), TAXONOMY) == ()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("  - {id: a, action: hold, when: {class: gpu_hardware.*}}", [("P001", "a")]),
        ("  - {id: a, action: hold, when: {class: comm.*}}\n  - {id: b, action: hold, when: {class: comm.peer_lost}}", [("P002", "b"), ("P007", "t")]),
        # two rows together take what neither takes alone
        (
            "  - {id: a, action: restart, when: {class: comm.*, status_at_least: supported}}\n"
            "  - {id: b, action: restart, when: {class: comm.*, status_at_most: hypothesis}}\n"
            "  - {id: c, action: hold, when: {class: comm.peer_lost, restarts_at_least: 3}}",
            [("P002", "c")],
        ),
        ("  - {id: a, action: hold, when: {restarts_at_least: 3}}\n  - {id: b, action: hold, when: {restarts_at_least: 5}}", [("P002", "b")]),
        ("  - {id: a, action: hold, when: {restarts_at_least: 5}}\n  - {id: b, action: hold, when: {restarts_at_least: 3}}", []),
        ("  - {id: a, action: hold, when: {status_at_least: established, status_at_most: hypothesis}}", [("P003", "a")]),
        ("  - {id: a, action: hold, when: {signals: no_steps_made}}", [("P004", "a")]),
        ("  - {id: a, action: restart, when: {class: scheduler.cancelled}}", [("P021", "a")]),
        ("  - {id: a, action: restart_excluding, when: {class: storage.*}}", [("P021", "a")]),
        ("  - {id: a, action: restart, when: {class: gpu_hw.*, restarts_at_least: 30}}", [("P022", "a")]),
    ],
)  # fmt: skip
def test_each_mistake_is_named_with_its_row(rows: str, expected: list[tuple[str, str]]) -> None:
    assert codes(f"{rows}\n{LAST}") == expected


def test_tests_are_wanted_and_must_be_right() -> None:
    assert codes(LAST, "") == [("P005", "tests")]
    assert codes(LAST, "tests: [{given: {class: no.such}, expect: hold}]") == [("P006", "tests[0]")]
    assert codes(LAST, "tests: [{given: {mood: bad}, expect: hold}]") == [("P006", "tests[0]")]
    assert codes(LAST, "tests: [{name: t, given: {class: comm.peer_lost}, expect: hold}]") == [("P007", "t")]


def test_every_code_says_what_to_do() -> None:
    assert all(slug and mend for slug, mend in CODES.values())
