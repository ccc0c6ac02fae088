"""Blocks: the same bytes, offsets and line numbers whatever the compression, the block size and the damage."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from attribution.sources import blocks
from attribution.sources.blocks import ReadReport, block_of, blocks_of, read_blocks
from attribution.sources.discover import SourceFile
from attribution.sources.streams import why_binary

PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": lambda b: gzip.compress(b, 1),
    "bz2": bz2.compress,
    "xz": lambda b: lzma.compress(b, preset=0),
    "zst": zstandard.compress,
}


def read(path: Path, **kw: int) -> tuple[bytes, ReadReport]:
    """All bytes of a file, with offsets and line numbers checked on the way."""
    report, out = ReadReport(), b""
    base = None
    for block in read_blocks(SourceFile(path=str(path), display=path.name), report=report, **kw):
        base = block.offset if base is None else base
        assert block.offset == base + len(out)
        assert block.first_line == out.count(b"\n") + 1
        assert block.size == len(block.data)
        assert block.newlines == bytes(block.data).count(b"\n")
        out += bytes(block.data)
    assert report.bytes_read == len(out)
    return out, report


@pytest.fixture
def log() -> bytes:
    """Some 800 kB that do not compress away."""
    rng = random.Random(7)
    return b"".join(rng.randbytes(rng.randrange(40)).hex().encode() + b"\n" for _ in range(20_000)) + b"no end"


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("block_bytes", [977, 65_536, 1 << 20])
def test_compressed_is_plain(tmp_path: Path, log: bytes, kind: str, block_bytes: int) -> None:
    # The name says nothing, and two members one behind the other are one log.
    path = tmp_path / "log.txt"
    path.write_bytes(PACK[kind](log[:300_000]) + PACK[kind](log[300_000:]))
    out, report = read(path, block_bytes=block_bytes)
    assert out == log
    assert report.problems == []
    assert report.lines == log.count(b"\n")
    assert report.compression == (None if kind == "plain" else kind)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_cut_off_and_damaged_streams_give_what_there_is(tmp_path: Path, log: bytes, kind: str) -> None:
    packed = PACK[kind](log[:300_000]) + PACK[kind](log[300_000:])
    path = tmp_path / "cut"
    path.write_bytes(packed[: len(packed) * 4 // 5])
    out, report = read(path)
    assert len(out) >= 300_000
    assert log.startswith(out)
    assert f"the {kind} stream is cut off" in report.problems[0]
    damaged = bytearray(packed)
    damaged[-2000:-1000] = bytes(1000)
    path.write_bytes(damaged)
    out, report = read(path)
    assert out[:300_000] == log[:300_000]
    assert len(report.problems) == 1


def test_padding_is_silent_and_other_trailing_bytes_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a\n") + bytes(512) + gzip.compress(b"b\n") + bytes(100))
    assert read(path)[0] == b"a\nb\n"
    path.write_bytes(gzip.compress(b"a\n") + b"garbage")
    out, report = read(path)
    assert out == b"a\n"
    assert "behind the end" in report.problems[0]


@given(data=st.binary(max_size=400), block_bytes=st.integers(1, 64))
def test_any_bytes_come_back_whole(data: bytes, block_bytes: int) -> None:
    report = ReadReport()
    out = b""
    for block in blocks_of(io.BytesIO(data), report, block_bytes=block_bytes):
        assert block.offset == len(out)
        assert block.first_line == out.count(b"\n") + 1
        out += bytes(block.data)
        # Every block but the last ends a line.
        assert bytes(block.data).endswith(b"\n") or out == data
    assert out == data
    assert report.lines == data.count(b"\n")


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=12),
    cuts=st.lists(st.integers(0, 160), max_size=4),
)
def test_ranges_tile_a_file(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    # A first line of text, so that random bytes are not refused as binary.
    data = b"INFO start of a log that is long enough to be one\n" * 2 + data
    path = tmp_path_factory.mktemp("range") / "x.log"
    path.write_bytes(data)
    edges = [0, *sorted(c for c in cuts if c < len(data))]
    if why_binary(data):
        return
    out = b""
    for start, stop in zip(edges, [*edges[1:], None], strict=True):
        file = SourceFile(path=str(path), display="x")
        for block in read_blocks(file, start=start, stop=stop):
            assert block.offset == len(out)
            assert out.endswith(b"\n") or not out
            out += bytes(block.data)
    assert out == data


def test_a_line_longer_than_the_limit_is_cut_with_exact_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LONGEST_LINE", 1000)
    data = b"first\n" + b"x" * 5000 + b"\nthird\n"
    got = [(b.offset, b.first_line, bytes(b.data)) for b in blocks_of(io.BytesIO(data), ReadReport(), block_bytes=64)]
    assert b"".join(d for _, _, d in got) == data
    assert max(len(d) for _, _, d in got) < 2100
    assert [n for o, n, _ in got if 6 < o < 5006] and {n for o, n, _ in got if 6 < o < 5006} == {2}


def test_block_counts_lines_without_a_copy() -> None:
    block = block_of(b"a\nbb\nc\n", 10, 4)
    assert (block.next_line, block.next_offset, block.count_lines(0, 5)) == (7, 17, 2)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"PK\x03\x04" + b"x" * 50, "zip archive"),
        (b"\x80\x04\x95abc", "pickle"),
        (b"\x01\x00\x02\x00text" * 40, "binary"),
        (b"\xff\xfeE\x00r\x00", "UTF-16"),
        (b"\x40\x00\x00\x00\x00\x00\x00\x00" + b'{"a":{"dtype":"F32"}}', "safetensors"),
    ],
)
def test_what_is_no_log_is_refused_with_a_reason(tmp_path: Path, data: bytes, why: str) -> None:
    assert why in (why_binary(data) or "")
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data))
    out, report = read(path)
    assert out == b""
    assert why in report.problems[0]


def test_nuls_of_a_network_file_system_are_no_reason_to_refuse() -> None:
    assert why_binary(bytes(3000) + b"step 10 loss 2.1\n") is None
    assert why_binary(b"caf\xe9 \xff\xff step 3\n" * 20) is None
    assert why_binary(b"\x1b[32mINFO\x1b[0m 100%|\xe2\x96\x88| 3/3\r\n" * 9) is None


def test_vanished_and_shrinking_files_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"line\n" * 100_000)
    report = ReadReport()
    for i, _ in enumerate(read_blocks(SourceFile(path=str(path), display="x.log"), report=report, block_bytes=65_536)):
        if i == 0:
            os.truncate(path, 50_000)
            path.unlink()
    assert [p.split(": ", 1)[1][:7] for p in report.problems] == ["was cut", "was rem"]
    gone = ReadReport()
    assert list(read_blocks(SourceFile(path=str(path), display="x.log"), report=gone)) == []
    assert gone.problems == ["x.log: cannot be read: No such file or directory"]


def test_a_growing_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"line\n" * 1000)
    report = ReadReport()
    for _ in read_blocks(SourceFile(path=str(path), display="x"), report=report):
        with path.open("ab") as f:
            f.write(b"more\n") if path.stat().st_size < 5010 else None
    assert report.growing


def test_a_pipe_is_read_as_it_comes(tmp_path: Path, log: bytes) -> None:
    pipe = tmp_path / "fifo"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(log)))
    writer.start()
    out, report = read(pipe)
    writer.join()
    assert out == log
    assert report.problems == []


def test_standard_input_can_be_given() -> None:
    file = SourceFile(path="-", display="<stdin>", stream=io.BytesIO(zstandard.compress(b"a\nb\n")))
    assert b"".join(bytes(b.data) for b in read_blocks(file)) == b"a\nb\n"


def test_without_isal_gzip_reads_the_same(tmp_path: Path, log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "isal", None)
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(log[:100_000]) + gzip.compress(log[100_000:]))
    assert read(path)[0] == log
