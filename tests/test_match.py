"""The matcher: two engines with equal results, exact lines, sampling that depends on content alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribution.match import Candidate, Matcher
from attribution.match.engines import HyperscanEngine
from attribution.match.sampling import EXACT_DENSE, RECENT, Sampler
from attribution.model import Line, Place, Role, RuleError, Source
from attribution.resources import data_root, rules_dir
from attribution.signatures import RuleSet, load
from attribution.signatures.relax import relax
from tests.signatures.conftest import Folder

needs_hyperscan = pytest.mark.skipif(importlib.util.find_spec("hyperscan") is None, reason="no wheel for this platform")
ENGINES = ["python", *(["hyperscan"] if importlib.util.find_spec("hyperscan") else [])]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rules = Folder(tmp_path / "rules")
    rules.rule(
        id="pytorch.exception.any",
        specificity="10",
        match=r"{any: ['^\w+Error: (?P<message>.*)']}",
        examples="[{text: 'KeyError: x'}]",
    )
    rules.rule(
        id="nccl.net.peer_reset",
        specificity="60",
        match="{any: ['Connection reset by peer', 'peer (?P<peer>\\S+) closed'], unless: ['retrying']}",
    )
    rules.rule(
        id="nccl.noise.retry",
        role="noise",
        specificity="70",
        match="{any: ['will be retried']}",
        examples="[{text: 'x will be retried'}]",
        **{"class": ""},
    )
    rules.rule(
        id="progress.megatron.iteration",
        role="progress",
        marks="[step]",
        match=r"{any: ['iteration +(?P<step>\d+)/']}",
        examples="[{text: ' iteration 3/ 9'}]",
        **{"class": ""},
    )
    rules.rule(
        id="ckpt.dcp.failed",
        specificity="50",
        match="{any: ['Error: disk'], frames: ['torch/distributed/checkpoint']}",
        examples="[{text: 'OSError: disk', frames: ['File \"/x/torch/distributed/checkpoint/a.py\"']}]",
    )
    rules.rule(
        id="kernel.oom.kill",
        sources="[kernel_log]",
        match="{any: ['Out of memory: Killed process (?P<pid>[0-9]+)']}",
        examples="[{text: 'Out of memory: Killed process 12 (python)'}]",
    )
    return rules


@pytest.fixture(params=ENGINES)
def matcher(folder: Folder, request: pytest.FixtureRequest) -> Matcher:
    return Matcher(load([folder.path]), request.param)


def line(text: str, source: Source = Source.JOB_LOG) -> Line:
    return Line(place=Place(path="x.log", line=1, offset=0, source=source), text=text, raw=text)


def ids(matcher: Matcher, candidates: Sequence[Candidate]) -> list[list[str]]:
    return [[matcher.ruleset.signatures[i].id for i in c.signatures] for c in candidates]


def test_lines_are_found_exactly(matcher: Matcher) -> None:
    data = b"nothing\n[rank3]: KeyError: 'x'\nplain\n gpu-1:2:3 [0] NCCL WARN Connection reset by peer"
    found = matcher.scan_block(data)
    assert ids(matcher, found) == [["pytorch.exception.any"], ["nccl.net.peer_reset"]]
    assert [data[c.start : c.end] for c in found] == data.split(b"\n")[1::2]


def test_a_view_of_a_reused_buffer_gives_the_same(matcher: Matcher) -> None:
    buffer = bytearray(b"KeyError: 1\nOSError: 2\nold old old KeyError: 3\n")
    assert matcher.scan_block(memoryview(buffer)[:23]) == matcher.scan_block(bytes(buffer[:23]))
    assert matcher.scan_block(memoryview(buffer)) == matcher.scan_block(bytes(buffer))
    assert matcher.scan_block(b"") == []


def test_the_most_specific_match_comes_first_with_its_fields(matcher: Matcher) -> None:
    found = matcher.match_line(line("RuntimeError: peer 10.0.0.7 closed"))
    assert [(m.signature, m.fields) for m in found] == [
        ("nccl.net.peer_reset", {"peer": "10.0.0.7"}),
        ("pytorch.exception.any", {"message": "peer 10.0.0.7 closed"}),
    ]


def test_unless_frames_and_source_decide_on_the_message(matcher: Matcher) -> None:
    assert matcher.match_line(line("Connection reset by peer, retrying")) == []
    frames = ('File "/x/torch/distributed/checkpoint/filesystem.py", line 3',)
    plain = [m.signature for m in matcher.match_line(line("OSError: disk"))]
    inside = [m.signature for m in matcher.match_line(line("OSError: disk"), frames)]
    assert plain == ["pytorch.exception.any"]
    assert inside == ["ckpt.dcp.failed", "pytorch.exception.any"]
    kill = "Out of memory: Killed process 12 (python)"
    assert matcher.match_line(line(kill)) == []  # a job's own log is no kernel log
    assert [m.fields for m in matcher.match_line(line(kill, Source.KERNEL_LOG))] == [{"pid": "12"}]


def test_a_log_of_a_known_kind_is_scanned_for_its_own_rules_only(matcher: Matcher) -> None:
    data = b"Out of memory: Killed process 12 (python)\nConnection reset by peer\n"
    assert ids(matcher, matcher.scan_block(data, 1, matcher.sampler(Source.JOB_LOG))) == [["nccl.net.peer_reset"]]
    assert ids(matcher, matcher.scan_block(data, 1, matcher.sampler(Source.KERNEL_LOG))) == [["kernel.oom.kill"]]
    assert len(matcher.scan_block(data)) == 2


def test_escape_codes_and_merged_words_do_not_hide_a_line(matcher: Matcher) -> None:
    data = (
        b"fine\n\x1b[36m(Actor pid=3)\x1b[0m Connection \x1b[31mreset\x1b[0m by peer\n"
        b"torch.cuda.OutOfMemoryErrortorch.cuda.OutOfMemoryError: : CUDA out of memory\n"
    )
    assert ids(matcher, matcher.scan_block(data)) == [["nccl.net.peer_reset"], ["pytorch.exception.any"]]


def test_noise_is_looked_for_only_where_something_else_hit(matcher: Matcher) -> None:
    data = b"a will be retried\nConnection reset by peer: will be retried\nb will be retried\n"
    assert ids(matcher, matcher.scan_block(data)) == [["nccl.net.peer_reset", "nccl.noise.retry"]]
    assert matcher.match_line(line("Connection reset by peer: will be retried"))[0].role is Role.NOISE


def progress(first: int, count: int) -> list[bytes]:
    return [b" iteration %8d/ 500000 | lm loss: 2.1E+00 |\n" % i for i in range(first, first + count)]


def scan(matcher: Matcher, lines: Sequence[bytes], cuts: Sequence[int]) -> list[tuple[int, int]]:
    """(line number, weight) of the kept lines of a file cut into blocks at the given lines."""
    sampler = matcher.sampler()
    out: list[tuple[int, int]] = []
    for first, last in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        block = b"".join(lines[first:last])
        found = matcher.scan_block(block, first + 1, sampler)
        out += [(first + 1 + block.count(b"\n", 0, c.start), c.weight) for c in found]
    return out


def test_a_file_full_of_progress_is_thinned_by_content_alone(folder: Folder) -> None:
    rules = load([folder.path])
    lines = progress(1, 20_000)
    lines[15_000:15_000] = [b"KeyError: 'x'\n"]
    kept = {engine: scan(Matcher(rules, engine), lines, ()) for engine in ENGINES}
    whole = kept["python"]
    assert all(k == whole for k in kept.values())
    assert scan(Matcher(rules), lines, (1, 999, 5_000, 15_000, 15_001, 19_999)) == whole
    assert whole[:EXACT_DENSE] == [(i, 1) for i in range(1, EXACT_DENSE + 1)]
    assert (15_001, 1) in whole  # what is no progress is never thinned
    assert EXACT_DENSE < len(whole) < 8 * EXACT_DENSE


def test_the_last_progress_lines_are_remembered_with_place_and_weight(folder: Folder) -> None:
    matcher = Matcher(load([folder.path]))
    lines = progress(1, 9_000)
    sampler = matcher.sampler()
    kept = [
        *matcher.scan_block(b"".join(lines[:7_000]), 1, sampler),
        *matcher.scan_block(b"".join(lines[7_000:]), 7_001, sampler),
    ]
    recent = list(sampler.recent)
    assert len(recent) == RECENT
    last = recent[-1]
    assert last.raw + b"\n" == lines[last.line - 1]
    assert last.offset == sum(map(len, lines[: last.line - 1]))
    assert 0.95 * 9_000 < sum(c.weight for c in kept) <= 9_000


def test_sampling_does_not_alias_with_interleaved_ranks(folder: Folder) -> None:
    matcher = Matcher(load([folder.path]))
    lines = [b"[rank%d]: " % (i % 8) + text for i, text in enumerate(progress(1, 40_000))]
    kept = [(n - 1) % 8 for n, _ in scan(matcher, lines, ()) if n > 4_000]
    counts = [kept.count(rank) for rank in range(8)]
    assert min(counts) >= 0.5 * max(counts)


_PIECES = st.sampled_from(
    [
        "Connection reset by peer",
        "peer 10.0.0.1 closed",
        "KeyError: 'x'",
        "iteration 12/",
        "will be retried",
        "\x1b[31m",
        "\x1b[0m",
        "[rank3]: ",
        "OSError: disk",
        "ErrorError: : ",
        "RuntimeError",
        '{"msg": "',
        "\\",
        '"',
        "é",
        " ",
        "\r",
        "x",
    ]
)
_LINES = st.lists(st.lists(_PIECES, max_size=5).map("".join), max_size=8)


@needs_hyperscan
def test_engines_agree_on_any_lines(folder: Folder) -> None:
    rules = load([folder.path])
    fast, plain = Matcher(rules, "hyperscan"), Matcher(rules, "python")

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(_LINES)
    def agree(lines: list[str]) -> None:
        data = "\n".join(lines).encode()
        assert fast.scan_block(data) == plain.scan_block(data)
        for text in lines:
            message = line(text.replace("\r", " "))
            assert fast.match_line(message) == plain.match_line(message)

    agree()


@pytest.fixture(scope="module")
def shipped() -> RuleSet:
    return load([rules_dir()])


@needs_hyperscan
def test_engines_agree_on_the_samples_with_the_shipped_rules(shipped: RuleSet) -> None:
    fast, plain = Matcher(shipped, "hyperscan"), Matcher(shipped, "python")
    samples = [p for p in sorted((data_root() / "data" / "samples").rglob("*")) if p.is_file() and p.suffix == ".log"]
    assert samples
    for path in samples:
        data = path.read_bytes()[:200_000]
        assert fast.scan_block(data) == plain.scan_block(data), path


@needs_hyperscan
def test_the_engine_sees_every_shipped_expression_among_the_others(shipped: RuleSet) -> None:
    from attribution.signatures.lint import Bench, EngineSees

    assert list(EngineSees().check(Bench(rules=shipped, engine=Matcher(shipped, "hyperscan")))) == []


@needs_hyperscan
def test_expressions_that_one_database_misses_are_found_by_another() -> None:
    """Vectorscan 5.4.12 does not see the second of these two when both stand in one database and text stands before it."""
    expressions = tuple(
        relax(p)
        for p in (
            r"\[(?P<a>[\d, ]+)\] joined but didn't finish collective #(?P<seq>\d+)",
            r"\[(?P<a>[\d, ]+)\] finished collective #(?P<seq>\d+), but didn't join collective #\d+",
        )
    )
    engine = HyperscanEngine(expressions)
    text = b"     [1] finished collective #2, but didn't join collective #3 (count from 1)"
    data = b"x" * 100 + b"\n" + text + b"\n" + b"y" * 300
    assert {e for _, e in engine.hits(data)} == {1}


def test_an_unknown_engine_is_refused(folder: Folder) -> None:
    with pytest.raises(RuleError, match="unknown engine"):
        Matcher(load([folder.path]), "perl")


@pytest.mark.parametrize("cuts", [[5_000], [1, 64, 65, 200, 4_734], [100] * 50])
def test_thinning_many_lines_at_once_is_thinning_them_one_by_one(cuts: list[int]) -> None:
    one, many = Sampler(frozenset({1}), frozenset()), Sampler(frozenset({1}), frozenset())
    singly = [w for _ in range(sum(cuts)) for w in [one.weight((1,))]]
    at, together = 0, [0] * sum(cuts)
    for count in cuts:
        for place, weight in many.weights((1,), count):
            together[at + place] = weight
        at += count
    assert together == singly


def test_looking_at_shapes_misses_no_line_that_looking_at_lines_finds(samples: Path) -> None:
    from attribution.match.shapes import FileShapes, ShapeMatcher
    from attribution.model import Source
    from attribution.sources.blocks import block_of
    from tests.make import analyzer

    matcher = Matcher(analyzer().ruleset)
    shapes = ShapeMatcher(matcher)
    for path in sorted(p for p in samples.rglob("*.log") if p.is_file()):
        data = path.read_bytes()
        by_line = {c.start: set(c.signatures) for c in matcher.scan_block(data, 1, matcher.sampler(Source.JOB_LOG))}
        file = FileShapes(shapes, str(path), Source.JOB_LOG)
        by_shape = {
            f.candidate.start: set(f.candidate.signatures)
            for f in file.candidates(block_of(data, 0, 1), matcher.sampler(Source.JOB_LOG))
        }
        exact = {s.index for s in matcher.ruleset.signatures if not s.dense}
        for start, signatures in by_line.items():
            assert signatures & exact <= by_shape.get(start, set()) | (signatures - exact), f"{path}: byte {start}"
