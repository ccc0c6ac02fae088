"""The follower hands out every whole line once, whatever happens to the file."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from attribution.live.follow import Change, Follower


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def collect(follower: Follower) -> bytes:
    return b"".join(c.data for c in follower.poll())


def test_a_half_written_line_waits_for_its_end(tmp_path: Path) -> None:
    log = tmp_path / "slurm-1.out"
    log.write_bytes(b"iteration 1\niterat")
    follower = Follower(Clock())
    follower.add(str(log))
    assert collect(follower) == b"iteration 1\n"
    with log.open("ab") as f:
        f.write(b"ion 2\n")
    (chunk,) = follower.poll()
    assert (chunk.data, chunk.offset, chunk.first_line) == (b"iteration 2\n", 12, 2)
    follower.close()


def test_truncation_starts_a_new_life(tmp_path: Path) -> None:
    log = tmp_path / "slurm-1.out"
    log.write_bytes(b"first attempt, line one\nline two\n")
    follower = Follower(Clock())
    follower.add(str(log))
    collect(follower)
    log.write_bytes(b"second\n")
    chunks = list(follower.poll())
    assert [c.change for c in chunks if c.change is not Change.NONE] == [Change.TRUNCATED]
    assert chunks[-1].data == b"second\n" and chunks[-1].life == 1 and chunks[-1].offset == 0
    follower.close()


def test_replacement_is_noticed_and_the_old_tail_is_not_lost(tmp_path: Path) -> None:
    log, clock = tmp_path / "job.log", Clock()
    log.write_bytes(b"old line\nold tail without end")
    follower = Follower(clock)
    follower.add(str(log))
    assert collect(follower) == b"old line\n"
    new = tmp_path / "new"
    new.write_bytes(b"new line\n")
    new.replace(log)
    clock.now = 5.0
    chunks = list(follower.poll())
    assert [c.data for c in chunks if c.data] == [b"old tail without end", b"new line\n"]
    assert Change.REPLACED in {c.change for c in chunks}
    follower.close()


def test_a_vanished_file_is_reported_and_let_go(tmp_path: Path) -> None:
    log, clock = tmp_path / "job.log", Clock()
    log.write_bytes(b"x\n")
    follower = Follower(clock)
    follower.add(str(log))
    collect(follower)
    log.unlink()
    clock.now = 5.0
    assert [c.change for c in follower.poll()] == [Change.VANISHED]
    assert len(follower) == 0


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_any_cut_of_writes_gives_the_same_lines(tmp_path_factory, pieces: list[bytes]) -> None:
    log = tmp_path_factory.mktemp("f") / "log"
    log.write_bytes(b"")
    follower = Follower(Clock())
    follower.add(str(log))
    seen, line, offset = b"", 1, 0
    with log.open("ab", buffering=0) as f:
        for piece in pieces:
            f.write(piece)
            for chunk in follower.poll():
                assert (chunk.offset, chunk.first_line) == (offset, line)
                seen += chunk.data
                offset += len(chunk.data)
                line += chunk.data.count(b"\n")
    whole = b"".join(pieces)
    assert seen == whole[: whole.rfind(b"\n") + 1]
    assert seen + follower.drop(str(log)) == whole
