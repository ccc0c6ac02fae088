"""Lines found by their shapes stand where they say, whatever the blocks are, and memory knows a limit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from attribution import resources, shapes
from attribution.analyze import analyze
from attribution.match import Matcher
from attribution.match.shapes import FileShapes, FoundLine, ShapeMatcher
from attribution.model import Source
from attribution.shapes import OTHER, ShapeCounter, ShapeCounts
from attribution.signatures import load
from attribution.sources.blocks import ReadReport, block_of, blocks_of


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher(load((resources.rules_dir(),)))


@pytest.fixture(scope="module")
def by_shape(matcher: Matcher) -> ShapeMatcher:
    return ShapeMatcher(matcher)


def training(steps: int) -> bytes:
    r = random.Random(1)
    lines = []
    for step in range(1, steps + 1):
        lines.append(
            f" iteration {step:8d}/{steps:8d} | consumed samples: {step * 1024:12d} | lm loss: {r.random():.6E} |"
        )
        lines.append("Map: " + "\r".join(f"{100 * i // 8}%|{'#' * i}| {i}/8" for i in range(1, r.randrange(2, 8))))
        if step % 50 == 0:
            lines += [
                "",
                "x" * 3000 + " NCCL WARN Call to ibv_poll_cq failed",
                f"saving checkpoint at iteration {step}",
            ]
    lines.append("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    return ("\n".join(lines) + "\n").encode()


def found(
    matcher: Matcher, by_shape: ShapeMatcher, path: Path, block_bytes: int
) -> tuple[list[tuple[int, FoundLine]], list[tuple[int, int, bytes]]]:
    """Candidates with the offset of their block, and the progress lines remembered last."""
    state, sampler = FileShapes(by_shape, str(path), Source.JOB_LOG), matcher.sampler(Source.JOB_LOG)
    out: list[tuple[int, FoundLine]] = []
    with path.open("rb", buffering=0) as stream:
        for block in blocks_of(stream, ReadReport(), block_bytes=block_bytes):
            out += [(block.offset, f) for f in state.candidates(block, sampler)]
    return out, [(s.line, s.offset, s.raw) for s in sampler.recent]


@pytest.mark.parametrize("block_bytes", [4 << 10, 64 << 10, 4 << 20])
def test_lines_stand_where_they_say(matcher: Matcher, by_shape: ShapeMatcher, tmp_path: Path, block_bytes: int) -> None:
    path = tmp_path / "job.log"
    data = training(3000)
    path.write_bytes(data)
    lines = data.split(b"\n")
    candidates, recent = found(matcher, by_shape, path, block_bytes)
    for base, f in candidates:
        assert data[base + f.candidate.start : base + f.candidate.end] == lines[f.line - 1]
    for line, offset, raw in recent:
        assert data[offset : offset + len(raw)] == raw
        assert lines[line - 1].startswith(raw)
    assert lines[candidates[-1][1].line - 1].startswith(b"torch.OutOfMemoryError")
    assert any(b"ibv_poll_cq" in lines[f.line - 1] for _, f in candidates), "what stands behind the cut is read too"


def test_blocks_change_nothing(matcher: Matcher, by_shape: ShapeMatcher, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(training(2000))
    small, big = (found(matcher, by_shape, path, size) for size in (8 << 10, 4 << 20))
    places = [[(base + f.candidate.start, f.line, f.candidate.signatures) for base, f in x[0]] for x in (small, big)]
    assert places[0] == places[1]
    assert small[1] == big[1]


def unlike(count: int) -> Iterator[bytes]:
    for i in range(count):
        yield "".join(chr(97 + int(d)) for d in str(i)).encode()


def test_too_many_shapes_count_as_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MOST_SHAPES", 100)
    counter = ShapeCounter("a")
    counter.feed(block_of(b"\n".join(unlike(250)) + b"\n", 0, 1))
    counts = counter.counts()
    assert (len(counts.shapes), counts.shapes[OTHER].count, counts.lines) == (101, 150, 250)


def test_long_unlike_lines_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MOST_BYTES", 40_000)
    counter = ShapeCounter("a")
    counter.feed(block_of(b"\n".join(x + b"-" * 1000 for x in unlike(100)) + b"\n", 0, 1))
    assert len(counter) < 25
    assert sum(s.count for s in counter.counts().shapes.values()) == 100


def test_a_sum_of_many_files_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MOST_MERGED", 10)
    many = []
    for name, lines in (("a", list(unlike(8))), ("b", list(unlike(30))[8:])):
        counter = ShapeCounter(name)
        counter.feed(block_of(b"\n".join(lines) + b"\n", 0, 1))
        many.append(counter.counts())
    total = ShapeCounts.merged(many)
    assert (len(total.shapes), total.shapes[OTHER].count, total.lines) == (11, 20, 30)


@pytest.mark.parametrize("cuts", [(0,), (3,), (2, 5), (6, 7, 8)])
@pytest.mark.parametrize("before", [b"", b"alpha 1\nbeta 2\nomega\n"])
def test_a_cut_parts_what_was_counted(cuts: tuple[int, ...], before: bytes) -> None:
    lines = [b"alpha 1", b"beta 2", b"", b"gamma\rbeta 17", b"x" * 2500, b"alpha 3", b"beta 4", b"delta", b"x" * 2500]
    data = b"".join(line + b"\n" for line in lines)
    counter = ShapeCounter("a")
    if before:
        counter.feed(block_of(before, 0, 1))
    first = 1 + before.count(b"\n")
    block = block_of(data, len(before), first)
    counter.feed(block)
    parts = [counter.cut(block, sum(len(line) + 1 for line in lines[:cut])) for cut in cuts] + [counter.counts()]
    for number, (part, low, high) in enumerate(zip(parts, (0, *cuts), (*cuts, len(lines)), strict=True)):
        alone = ShapeCounter("a")
        if before and not number:
            alone.feed(block_of(before, 0, 1))
        alone.feed(block_of(b"".join(line + b"\n" for line in lines[low:high]), 0, first + low))
        assert part == alone.counts()
    counter.feed(block_of(b"omega\nbeta 9\n", 0, 100))
    assert counter.counts().shapes[b"omega"].first_line == 100


def test_lines_of_two_attempts_in_one_file_count_for_their_own(tmp_path: Path) -> None:
    attempt = [
        "SLURM_JOB_ID=4127311",
        "loading the data",
        " iteration        1/     500 | consumed samples:           16 | lm loss: 6.418855E+00 |",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ]
    path = tmp_path / "slurm-4127311.out"
    path.write_text("\n".join([*attempt, "only the first says this", *attempt, "only the second says that"]) + "\n")
    first, second = analyze([str(path)])
    assert first.masked is not None and second.masked is not None
    assert sum(m.count for m in first.masked.values()) == sum(m.count for m in second.masked.values()) == 7
    assert "only the first says this" in first.masked and "only the first says this" not in second.masked
    assert second.masked["loading the data"].first_line == 9
