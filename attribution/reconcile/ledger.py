"""The ledger: what we meant to do, what was answered, how each Advice stands. Append-only JSON lines, synced to disk.

One writer at a time (flock). A line counts when its line end is there: a half-written last line, left by a crash, is
cut off when the next writer opens the file. Readers skip it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from attribution.model import Disposition, StoreError, to_plain
from attribution.reconcile.terms import Event, LedgerEntry, Mode, Reason
from attribution.schedulers.base import ReplyKind, StepKind

FILE = "ledger.jsonl"
SCHEMA = "recovery.ledger/1"
_COUNTED = (StepKind.REQUEUE_HOLD, StepKind.CANCEL, StepKind.DRAIN)
_HOUR_S = 3600.0


def encode(entry: LedgerEntry) -> bytes:
    """One line, with its line end."""
    return orjson.dumps({"schema": SCHEMA, **to_plain(entry)}) + b"\n"


def decode(raw: bytes) -> LedgerEntry:
    """One line. Raises ValueError, KeyError or TypeError when it is not a ledger line."""
    row: dict[str, Any] = orjson.loads(raw)
    return LedgerEntry(
        seq=int(row["seq"]),
        time_s=float(row["time_s"]),
        event=Event(row["event"]),
        mode=Mode(row["mode"]),
        advice_id=str(row["advice_id"]),
        attempt=str(row["attempt"]),
        generation=int(row.get("generation", 1)),
        step=StepKind(row["step"]) if row.get("step") else None,
        subject=str(row.get("subject", "")),
        exclude=tuple(str(x) for x in row.get("exclude", ())),
        reply=ReplyKind(row["reply"]) if row.get("reply") else None,
        intent=row.get("intent"),
        disposition=Disposition(row["disposition"]) if row.get("disposition") else None,
        reason=Reason(row["reason"]) if row.get("reason") else None,
        text=str(row.get("text", "")),
    )


def read_ledger(folder: Path) -> Iterator[LedgerEntry]:
    """Whole entries of a ledger folder in order, without a lock. A broken line in the middle raises StoreError."""
    path = folder / FILE
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot read: {error.strerror}", where=str(path)) from error
    lines = raw.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            yield decode(line)
        except (ValueError, KeyError, TypeError) as error:
            where = f"{path}:{number}"
            raise StoreError(f"not a ledger line: {error}", where=where, mend="move the file away") from error


class Ledger:
    """The one writer. Use as a context manager; `append` returns after the line is on disk."""

    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        """Open or create the ledger in `folder`. Raises StoreError if another writer has it or it is damaged."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._folder, self._sync = folder, sync
        self._seq = 0
        self._by_attempt: dict[str, list[LedgerEntry]] = {}
        self._by_advice: dict[str, list[LedgerEntry]] = {}
        self._counted: list[LedgerEntry] = []
        self._fd = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise StoreError("another reconciler writes this ledger", where=str(folder)) from error
        try:
            self._cut_half_line()
            for entry in read_ledger(folder):
                self._index(entry)
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def folder(self) -> Path:
        """Where the ledger lies; evidence goes into ``evidence/`` beside it."""
        return self._folder

    def _cut_half_line(self) -> None:
        size = os.fstat(self._fd).st_size
        at = size
        while at > 0:
            start = max(0, at - 4096)
            found = os.pread(self._fd, at - start, start).rfind(b"\n")
            if found >= 0:
                at = start + found + 1
                break
            at = start
        if at != size:
            os.ftruncate(self._fd, at)
            os.fsync(self._fd)

    def append(self, entry: LedgerEntry) -> LedgerEntry:
        """Write one entry, its `seq` given here, and return it. Raises StoreError when it is not on disk."""
        written = replace(entry, seq=self._seq + 1)
        data = encode(written)
        try:
            done = os.write(self._fd, data)
            if done != len(data):
                self._cut_half_line()
                raise StoreError("disk full", where=str(self._folder / FILE))
            if self._sync:
                os.fsync(self._fd)
        except OSError as error:
            raise StoreError(f"cannot write: {error.strerror}", where=str(self._folder / FILE)) from error
        self._index(written)
        return written

    def _index(self, entry: LedgerEntry) -> None:
        self._seq = max(self._seq, entry.seq)
        self._by_attempt.setdefault(entry.attempt, []).append(entry)
        self._by_advice.setdefault(entry.advice_id, []).append(entry)
        if entry.event is Event.INTENT and entry.step in _COUNTED:
            self._counted.append(entry)

    def of(self, attempts: Iterable[str]) -> tuple[LedgerEntry, ...]:
        """Entries about these attempts, and every stop and drain (they count against the hourly limits)."""
        wanted = set(attempts)
        found = [entry for key in sorted(wanted) for entry in self._by_attempt.get(key, ())]
        since_s = self._counted[-1].time_s - _HOUR_S if self._counted else 0.0
        others = (e for e in self._counted if e.attempt not in wanted and e.time_s > since_s)
        return tuple(sorted([*found, *others], key=lambda entry: entry.seq))

    def about(self, advice_id: str) -> tuple[LedgerEntry, ...]:
        """Entries of one Advice, all generations."""
        return tuple(self._by_advice.get(advice_id, ()))

    def close(self) -> None:
        """Let the next writer in."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
