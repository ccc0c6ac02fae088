"""Relaxed expressions: never narrower than the pattern, with literals that every match holds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribution.signatures.generate import texts
from attribution.signatures.relax import PatternError, relax
from attribution.signatures.rules import Pattern

PATTERNS = [
    r"NET/IB ?: (?:\S+ )?[Gg]ot completion .*(?:status|error)[= ](?P<wc_status>\d+)",
    r"^(?P<exception>[A-Z]\w*Error): (?P<message>.*)$",
    r"CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ [KMG]iB)",
    r"\[(?P<missing>[\d, ]+)\] finished collective #(?P<seq>\d+), but didn't join collective #\d+",
    r"srun: error: (?P<node>\S+): tasks? (?P<tasks>[\d,-]+): (?:Exited with exit code (?P<exit_code>\d+)|Killed)",
    r'"level": ?"error", ?"msg": ?"(?P<message>[^"]+)"',
    r"can.t allocate|c?annot open shared object",
    r"(?i:segmentation) fault(?: \(core dumped\))?",
    r"(?:\w+\.)*(?P<name>\w{3,})Exception",
    r"进程 (?P<pid>\d+) 已杀死",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_a_pattern_matches_its_relaxed_form_matches_in_bytes(pattern: str) -> None:
    relaxed = relax(pattern)
    found = texts(Pattern(pattern), 40)
    assert len(found) >= 20
    for text in found:
        raw = b"12: [rank3]: " + text.encode() + b" trailing"
        assert re.search(relaxed.expression.encode("ascii"), raw), (text, relaxed.expression)
        assert any(x in raw.lower() for x in relaxed.literals), (text, relaxed.literals)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_messages_inside_json_are_seen_too(pattern: str) -> None:
    relaxed = relax(pattern)
    for text in texts(Pattern(pattern), 10):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').encode()
        assert re.search(relaxed.expression.encode("ascii"), escaped), (text, relaxed.expression)


def test_tails_heads_and_anchors_go() -> None:
    assert relax(r"^\s*(?P<a>NCCL WARN) .*$").expression == "NCCL WARN "
    assert relax(r".*step (\d+)/(\d+)").expression == r"step [\x30-\x39]+/[\x30-\x39]"


def test_a_weak_beginning_before_anything_goes_where_a_strong_literal_follows() -> None:
    assert relax(r"^\w*: .{0,300}(?:Disk quota exceeded|EDQUOT)").expression == "(?:Disk quota exceeded|EDQUOT)"
    assert relax(r"NCCL WARN .*Connection refused").expression.startswith("NCCL WARN ")


def test_several_bytes_of_one_character() -> None:
    expression = relax("can.t open").expression.encode()
    assert re.search(expression, "can’t open".encode())
    assert re.search(expression, b"can't open")


@pytest.mark.parametrize("pattern", ["", ".*", "(?:foo)?", r"^\s*$", "a*|b"])
def test_what_matches_any_text_is_noticed(pattern: str) -> None:
    assert relax(pattern).empty


@pytest.mark.parametrize(
    ("pattern", "hazard"),
    [
        (r"(a+)+b", "nested unbounded repeats"),
        (r"(?:\w+\s*)*x", "nested unbounded repeats"),
        (r"foo(?=bar)", "look-around"),
        (r"(?<!x)foo", "look-around"),
        (r"(?P<a>x+) (?P=a)", "back-reference"),
        (r"x++y", "possessive repeat"),
    ],
)
def test_hazards_are_named(pattern: str, hazard: str) -> None:
    assert relax(pattern).hazards == (hazard,)


@pytest.mark.parametrize("pattern", [r"(?:\w+\.)+Error", r"(?:\d+, )*\d+ of", r"\[[^\]]*\] x", r"(?:foo|bar){1,4} baz"])
def test_repeats_with_a_separator_are_no_hazard(pattern: str) -> None:
    assert relax(pattern).hazards == ()


@pytest.mark.parametrize("pattern", ["(unclosed", "*", "a{3,1}", "[z-a]"])
def test_a_broken_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        relax(pattern)


_ATOMS = st.sampled_from(
    ["a", "b", "é", '"', r"\d", r"\w", ".", "[^a]", "[ab]", r"\s", "x{2}", "(?:ab|c)", "b?", "[0-9]+"]
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(_ATOMS, min_size=1, max_size=7), st.text(alphabet='abcx01 "é', max_size=12))
def test_relaxing_never_narrows(atoms: list[str], text: str) -> None:
    pattern = "".join(atoms)
    relaxed = relax(pattern)
    if re.search(pattern, text, re.ASCII) and not relaxed.empty:
        assert re.search(relaxed.expression.encode("ascii"), text.encode())
        assert not relaxed.literals or any(x in text.encode().lower() for x in relaxed.literals)
