"""Shapes count exactly, and templates depend on neither the order of files nor the cut of the work."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.shapes import LONGEST, ShapeCounter, ShapeCounts
from attribution.sources.blocks import block_of
from attribution.templates import MOST_ALIKE, UNLIKE, Masked, Miner, Template, mask


def count(data: bytes, cuts: list[int] | None = None, *, whole: bool = False) -> ShapeCounts:
    """Shapes of `data` in blocks; `whole` squeezes all bytes, as is done where few lines are alike."""
    counter = ShapeCounter("job.log")
    counter._squeeze_pieces = 1 << 30 if whole else 0
    at, line = 0, 1
    for cut in [*(cuts or []), len(data)]:
        end = data.rfind(b"\n", 0, cut) + 1 if cut < len(data) else len(data)
        if end > at:
            block = block_of(data[at:end], at, line)
            counter.feed(block)
            at, line = end, block.next_line
    return counter.counts()


def plainly(data: bytes) -> Counter[bytes]:
    """What the fast way must give, the slow way."""
    found: Counter[bytes] = Counter()
    for line in data.translate(bytes.maketrans(b"123456789\r", b"000000000\n")).split(b"\n"):
        shape = re.sub(b"0+", b"0", line)[:LONGEST]
        if shape:
            found[shape] += 1
    return found


@given(
    st.binary(max_size=400).map(lambda b: b.replace(b"x", b"\n").replace(b"y", b"\r").replace(b"z", b"12")),
    st.lists(st.integers(0, 400), max_size=4),
)
def test_any_cut_counts_what_the_slow_way_counts(data: bytes, cuts: list[int]) -> None:
    for whole in (False, True):
        counts = count(data, sorted(cuts), whole=whole)
        assert {k: s.count for k, s in counts.shapes.items()} == plainly(data)
        assert counts.lines == sum(plainly(data).values())


def test_lines_unlike_in_their_widths_are_squeezed_whole_with_the_same_result() -> None:
    data = b"".join(
        b"%d of %d took %d ms at %d\n" % (10**a, 10**b, 10**c, 7) for a in range(9) for b in range(9) for c in range(9)
    )
    assert count(data) == count(data, whole=True)
    assert [s.count for s in count(data * 3).shapes.values()] == [3 * 729]


def test_exemplars_are_the_first_line_of_their_shape(samples: Path) -> None:
    data = (samples / "megatron-nan-loss.log").read_bytes()
    lines = data.split(b"\n")
    for shape in count(data).shapes.values():
        assert shape.exemplar in lines[shape.first_line - 1]


def test_merging_is_adding(samples: Path) -> None:
    data = (samples / "deepspeed-rank-killed.log").read_bytes()
    half = data.find(b"\n", len(data) // 2) + 1
    merged = ShapeCounts.merged([count(data[half:]), count(data[:half])])
    assert {k: s.count for k, s in merged.shapes.items()} == {k: s.count for k, s in count(data).shapes.items()}


@pytest.mark.parametrize(
    "lines",
    [
        (b"[rank0]: step 1 loss 2.5", b"[rank13]: step 200 loss 0.1"),
        (b"2026-06-14 03:21:57 saving /scratch/a/step_1.pt", b"2026-06-15 13:01:07 saving /scratch/b/step_2.pt"),
        (b"peer 10.0.0.1 comm 0x7f3a", b"peer 10.4.17.23 comm 0x55ab"),
        (b"  0: ok", b" 13: ok"),
    ],
)
def test_ranks_times_and_values_mask_alike(lines: tuple[bytes, bytes]) -> None:
    assert len(mask(count(b"\n".join(lines) + b"\n"))) == 1


def test_templates_and_counts_do_not_depend_on_who_comes_first(samples: Path) -> None:
    masked = {p.name: mask(count(p.read_bytes())) for p in sorted(samples.glob("*.log"))}
    forward, backward = Miner(), Miner()
    a = forward.mine(masked)
    b = backward.mine(dict(reversed(masked.items())))
    assert {k: a[k] for k in sorted(a)} == {k: b[k] for k in sorted(b)}
    assert {t.id: t.text for t in forward.templates.values()} == {t.id: t.text for t in backward.templates.values()}


def test_ids_stay_when_the_tree_is_rebuilt_from_the_table() -> None:
    lines = {f"loading shard <NUM> of {w}": Masked(1, "a", 1, "x") for w in ("wiki", "books", "code")}
    first = Miner()
    before = first.mine({"a": lines})
    again = Miner([Template(id=t.id, text=t.text) for t in first.templates.values()])
    assert again.mine({"a": lines}) == before
    assert not again.changed


def test_lines_that_are_like_none_are_one_template_and_cost_no_more_each() -> None:
    words = ["".join(chr(97 + int(d)) for d in str(i * 7919 + 10**9)) for i in range(6000)]
    lines = {w: Masked(1, "a", i + 1, w) for i, w in enumerate(sorted(words))}
    miner = Miner()
    (counts,) = miner.mine({"a": lines}).values()
    unlike = next(t.id for t in miner.templates.values() if t.text == UNLIKE)
    assert len(miner.templates) <= MOST_ALIKE + 1
    assert next(c.count for c in counts if c.template_id == unlike) == 6000 - MOST_ALIKE
    again = Miner([Template(id=t.id, text=t.text) for t in miner.templates.values()])
    assert again.mine({"a": lines})["a"] == counts


def test_mining_is_plain_drain_over_the_sorted_lines(samples: Path) -> None:
    masked_lines = mask(ShapeCounts.merged(count(p.read_bytes()) for p in sorted(samples.glob("*.log"))))
    miner = Miner()
    miner.mine({"a": masked_lines})
    plain = Miner()._miner.drain
    for line in sorted(masked_lines):
        plain.add_log_message(line or "<blank>")
    assert sorted(t.text for t in miner.templates.values()) == sorted(c.get_template() for c in plain.clusters)
