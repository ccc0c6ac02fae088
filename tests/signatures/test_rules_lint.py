"""`recovery rules check`: each code is reported for what it means, with the line of the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution.match import Matcher
from attribution.signatures import Finding, examine
from attribution.signatures.lint import lint
from tests.signatures.conftest import Folder


def found(folder: Folder, *healthy: Path) -> list[Finding]:
    rules, findings = examine([folder.path])
    assert findings == []
    return lint(rules, Matcher(rules), healthy)


def codes(folder: Folder, *healthy: Path) -> list[tuple[str, str]]:
    return [(f.signature or "", f.code) for f in found(folder, *healthy)]


def test_sound_rules_have_no_findings(xid_folder: Folder) -> None:
    assert found(xid_folder.rule()) == []


RULE = "nccl.net.peer_reset"


@pytest.mark.parametrize(
    ("changes", "code", "line"),
    [
        ({"examples": "[{text: 'Connection reset'}]"}, "R010", 7),
        (
            {
                "match": "{any: ['reset by (?P<who>peer)']}",
                "examples": "[{text: 'reset by peer', fields: {who: host}}]",
            },
            "R011",
            7,
        ),
        ({"counterexamples": "[{text: 'no Connection reset by peer'}]"}, "R012", 8),
        ({"match": "{any: ['Connection reset by peer', 'peer went away']}"}, "R013", 6),
        ({"match": "{any: ['\\d+ \\w+ \\d+']}", "examples": "[{text: '1 x 2'}]"}, "R014", 6),
        ({"match": "{any: ['reset (?:\\w+\\s*)*peer']}", "examples": "[{text: 'reset by peer'}]"}, "R015", 6),
        ({"match": "{any: ['reset by peer'], unless: ['(?=x)y']}"}, "R015", 6),
        ({"match": r"{any: ['reset.*by.*\w+.*x+.*y']}", "examples": "[{text: 'reset by peer x y'}]"}, "R026", 6),
        ({"counterexamples": ""}, "R019", 2),
        ({"examples": "[{text: 'Connection reset by peer', spoken_by: nccl.net.other}]"}, "R025", 7),
    ],
)
def test_each_code(folder: Folder, changes: dict[str, str], code: str, line: int) -> None:
    findings = found(folder.rule(**changes))
    assert [(f.signature, f.code, f.line) for f in findings] == [(RULE, code, line)]


def test_an_overlap_is_told_once_unless_it_is_said(folder: Folder) -> None:
    folder.rule()
    other = {"id": "nccl.net.timeout", "class": "comm.collective_timeout", "match": "{any: ['reset by peer']}"}
    folder.rule(**other)
    assert codes(folder) == [(RULE, "R016")]
    folder.rule(**other, overlaps=f"[{RULE}]")
    assert codes(folder) == []
    folder.rule(**other, specificity="40")
    assert codes(folder) == []


def test_two_roots_that_explain_each_other(folder: Folder) -> None:
    folder.rule(explains="[{classes: [comm.collective_timeout]}]")
    folder.rule(
        id="nccl.watchdog.timeout",
        match="{any: ['Watchdog caught collective']}",
        explains="[{classes: [comm.*]}]",
        examples="[{text: 'Watchdog caught collective'}]",
        **{"class": "comm.collective_timeout"},
    )
    assert codes(folder) == [("nccl.watchdog.timeout", "R017")]


def test_healthy_logs_stay_silent(folder: Folder, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("step 1\nConnection reset by peer\nstep 2\nConnection reset by peer\n")
    folder.rule()
    (finding,) = found(folder, log)
    assert (finding.code, "run.log:2" in finding.what) == ("R018", True)
    folder.rule(id="nccl.noise.reset", role="noise", specificity="90", **{"class": ""})
    assert codes(folder, log) == []


def test_a_code_can_be_set_aside_with_a_reason_but_no_proof_can(folder: Folder) -> None:
    folder.rule(counterexamples="", allow="{R019: nothing looks alike}")
    assert codes(folder) == []
    folder.rule(examples="[{text: 'something else'}]", allow="{R010: do not look, R013: do not look}")
    assert codes(folder) == [(RULE, "R010")]


def test_table_rows_must_be_reachable(xid_folder: Folder) -> None:
    table = xid_folder.path / "tables" / "xid.yaml"
    table.write_text(table.read_text() + '  "7a": {role: noise}\n  "13": {role: root, example: "NVRM: Xid 13"}\n')
    assert [(f.code, f.line, f.what) for f in found(xid_folder)] == [
        ("R020", 8, "table xid: row '7a'"),
        ("R020", 9, "table xid: row '13'"),
    ]
    table.write_text(table.read_text().replace("NVRM: Xid 13", "NVRM: Xid (PCI:0000:38:00): 13, Graphics Exception"))
    assert [f.what for f in found(xid_folder)] == ["table xid: row '7a'"]
