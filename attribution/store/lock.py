"""One committer at a time. The lock is the kernel's: a process that dies lets it go, and readers never ask for it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attribution.model import StoreError


@contextmanager
def exclusive(store: Path) -> Iterator[None]:
    """Hold the store's lock, waiting for whoever holds it now.

    Template ids are given under it, so that two runs never give the same id to different templates, and compaction takes
    away only files that nobody is about to commit.

    Raises:
        StoreError: the store cannot be written, or its file system has no locks.
    """
    path = store / ".lock"
    try:
        with path.open("ab") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise StoreError(
            f"cannot be written: {error.strerror or error}",
            where=error.filename or str(store),
            mend="a store wants space, write permission and a file system with locks (flock)",
        ) from error
