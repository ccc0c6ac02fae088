"""Manifests: what makes a run's files part of the store. A file that no manifest names does not exist for readers.

A commit unit is written in this order: Parquet files under temporary names, fsync, rename; then the manifest, likewise.
Killed anywhere, the store holds whole units only.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from attribution.model import StoreError

HEAD = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A log as it was when it was analysed: enough to know that it is unchanged, without reading it whole."""

    path: str
    size: int
    mtime_ns: int
    edges: str

    @staticmethod
    def of(path: str) -> Input | None:
        """The input at `path` now, None where it cannot be read or is no plain file."""
        try:
            # Without O_NONBLOCK a FIFO, which was read to its end, would wait for another writer.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as f:  # noqa: PTH123 - hot for 10^5 files
                info = os.fstat(f.fileno())
                if not stat.S_ISREG(info.st_mode):
                    return None
                digest = hashlib.sha256(f.read(HEAD))
                if info.st_size > HEAD:
                    f.seek(max(HEAD, info.st_size - HEAD))
                    digest.update(f.read(HEAD))
        except OSError:
            return None
        return Input(
            path=str(Path(path).absolute()), size=info.st_size, mtime_ns=info.st_mtime_ns, edges=digest.hexdigest()[:16]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One commit unit. `inputs` maps absolute paths to what they were; `replaces` names manifests it stands for."""

    name: str
    run_id: str
    engine: str
    rules: str
    created_s: float
    files: tuple[str, ...]
    rows: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    replaces: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """The manifest as its file holds it."""
        return orjson.dumps(
            {
                "name": self.name,
                "run_id": self.run_id,
                "engine": self.engine,
                "rules": self.rules,
                "created_s": self.created_s,
                "files": list(self.files),
                "rows": self.rows,
                "inputs": {k: list(v) for k, v in self.inputs.items()},
                "replaces": list(self.replaces),
            },
            option=orjson.OPT_SORT_KEYS,
        )

    @staticmethod
    def from_json(data: bytes, where: str) -> Manifest:
        """Read a manifest.

        Raises:
            StoreError: it is damaged.
        """
        try:
            raw: dict[str, Any] = orjson.loads(data)
            return Manifest(
                name=raw["name"],
                run_id=raw["run_id"],
                engine=raw["engine"],
                rules=raw["rules"],
                created_s=float(raw["created_s"]),
                files=tuple(raw["files"]),
                rows=dict(raw["rows"]),
                inputs={k: (int(v[0]), int(v[1]), str(v[2])) for k, v in raw["inputs"].items()},
                replaces=tuple(raw["replaces"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"damaged manifest: {error}", where=where, mend="move the file away; its run is lost"
            ) from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, even after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def live(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Manifests that count: those that no other one stands for, oldest first."""
    known = {m.name: m for m in manifests}
    replaced = {r for m in known.values() for r in m.replaces}
    return sorted((m for m in known.values() if m.name not in replaced), key=lambda m: (m.created_s, m.name))


def inputs_of(manifests: Sequence[Manifest], rules: str, engine: str) -> dict[str, tuple[int, int, str]]:
    """Inputs that were analysed with these rules by this engine; the newest analysis of a path counts."""
    out: dict[str, tuple[int, int, str]] = {}
    for m in manifests:
        if m.rules == rules and m.engine == engine:
            out.update(m.inputs)
    return out
