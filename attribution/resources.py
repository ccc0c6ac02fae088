"""Where the packaged rules and models lie.

A wheel carries them under ``attribution/_data``; in a checkout they stand at the repository's root.
"""

from __future__ import annotations

import os
from pathlib import Path

from attribution.model import ConfigError

#: Cache entries kept of one kind.
_KEPT = 24
_PACKAGE = Path(__file__).resolve().parent


def data_root() -> Path:
    """Folder that holds ``rules/`` and ``models/``.

    Raises:
        ConfigError: neither an installed nor a checked-out copy is there.
    """
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        if (root / "rules" / "taxonomy.yaml").is_file():
            return root
    raise ConfigError("the packaged rules are missing", where=str(_PACKAGE), mend="install recovery-attribution again")


def rules_dir() -> Path:
    """Folder of the packaged rules."""
    return data_root() / "rules"


def models_dir() -> Path:
    """Folder of the packaged classifiers; it may be empty."""
    return data_root() / "models"


def cache_dir() -> Path:
    """Folder for caches of this user, by the XDG base directory specification; it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "recovery"


def read_cache(name: str) -> bytes | None:
    """Bytes of a cache entry, None where it is absent or unreadable."""
    try:
        return (cache_dir() / name).read_bytes()
    except (OSError, RuntimeError):
        return None


def write_cache(name: str, data: bytes) -> bool:
    """Store a cache entry whole or not at all; a folder that cannot be written costs speed, never an error."""
    try:
        folder = cache_dir()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = folder / f".{name}.{os.getpid()}"
        part.write_bytes(data)
        part.replace(folder / name)
        _prune(folder, name.partition("-")[0])
    except (OSError, RuntimeError):
        return False
    return True


def _prune(folder: Path, kind: str) -> None:
    """Keep the newest entries of a kind: every edit of a rule makes a new one."""
    entries = sorted(folder.glob(f"{kind}-*"), key=lambda p: p.stat().st_mtime_ns, reverse=True)
    for old in entries[_KEPT:]:
        old.unlink(missing_ok=True)
