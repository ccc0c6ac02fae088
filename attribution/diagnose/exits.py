"""How ranks and tasks ended, from every witness: srun, torchrun, mpirun, a launcher's summary, accounting.

A launcher names the first exit that it *saw*. Which exit came first is decided here by signals: a process that its
launcher terminated (SIGTERM, or SIGKILL behind a SIGTERM that it did not obey) is collateral and never first.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attribution.model import Evidence, Match, Place
from attribution.progress import whole

_SIGNAL_NAMES = {s.name: int(s) for s in signals.Signals}
_WORDS = {
    "killed": 9,
    "terminated": 15,
    "segmentation fault": 11,
    "aborted": 6,
    "bus error": 7,
    "out of memory": 9,
    "floating point exception": 8,
    "illegal instruction": 4,
    "hangup": 1,
    "interrupt": 2,
}
#: Signals by which somebody else ends a process in order.
POLITE = frozenset({1, 2, 15})
#: Lines that a summary block's fields may be apart.
BLOCK_LINES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExit:
    """One witness's word on how one rank (or task, or process) ended. `signal` excludes `exit_code` but for shells."""

    place: Place
    rank: int | None = None
    local_rank: int | None = None
    tasks: tuple[int, ...] = ()
    node: str | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    summary: bool = False
    match: Match | None = None

    @property
    def collateral(self) -> bool:
        """True where somebody else ended it in order."""
        return self.signal in POLITE or (self.signal is None and self.exit_code == 0)


def signal_number(text: str | None) -> int | None:
    """``9``, ``SIGKILL``, ``Killed`` or ``segmentation fault`` as a number, None for words that name no signal."""
    if not text:
        return None
    word = text.strip().strip("()").lower()
    if word.lstrip("-").isdigit():
        return abs(int(word))
    upper = word.upper() if word.upper().startswith("SIG") else f"SIG{word.upper()}"
    return _SIGNAL_NAMES.get(upper) or _WORDS.get(word)


def task_list(text: str | None, limit: int = 65_536) -> tuple[int, ...]:
    """Slurm's compressed task list ``24-26,28`` as numbers; pieces that are no numbers are left out."""
    out: list[int] = []
    for piece in re.split(r"[,\s]+", (text or "").strip()):
        low, _, high = piece.partition("-")
        if not low.isdigit() or (high and not high.isdigit()):
            continue
        a, b = int(low), int(high or low)
        out.extend(range(a, min(b, a + limit - len(out)) + 1))
        if len(out) >= limit:
            break
    return tuple(out)


def _exit(match: Match, earlier: dict[str, str]) -> RankExit:
    fields = {**earlier, **match.fields}
    code = whole(fields.get("exit_code"))
    number = signal_number(fields.get("signal"))
    if code is not None and code < 0:
        number, code = -code, None
    elif code is not None and 128 < code <= 128 + 64 and number is None:
        number, code = code - 128, None
    rank = whole(fields.get("rank"))
    tasks = task_list(fields.get("tasks") or fields.get("task"))
    return RankExit(
        place=match.place,
        rank=rank if rank is not None else match.place.rank,
        local_rank=whole(fields.get("local_rank")),
        tasks=tasks,
        node=fields.get("node") or fields.get("host") or match.place.host,
        pid=whole(fields.get("pid")),
        exit_code=code if number is None else None,
        signal=number,
        summary="summary" in match.marks,
        match=match,
    )


def collect(matches: Iterable[Match]) -> tuple[RankExit, ...]:
    """Every exit that the matches tell of, in their order. Fields of a summary block are joined over its lines."""
    out: list[RankExit] = []
    block: dict[str, str] = {}
    at: Place | None = None
    for m in matches:
        if "summary" in m.marks:
            if at is None or m.place.path != at.path or m.place.line - at.line > BLOCK_LINES:
                block = {}
            at = m.place
            if "exit_code" in m.fields or "signal" in m.fields:
                out.append(_exit(m, block))
                block = {}
            else:
                block.update(m.fields)
        elif "rank_exit" in m.marks:
            out.append(_exit(m, {}))
    return tuple(out)


def pid_ranks(evidence: Evidence) -> dict[int, int]:
    """Global rank by process id, where a summary or a topology line tells both."""
    known = {r.pid: r.rank for r in evidence.ranks if r.pid is not None}
    for e in collect(evidence.matches):
        if e.pid is not None and e.rank is not None:
            known.setdefault(e.pid, e.rank)
    return known


def primary(exits: Sequence[RankExit]) -> tuple[RankExit, ...]:
    """The exits that are nobody's collateral, signals that no program chooses before exit codes."""
    own = [e for e in exits if not e.collateral]
    hard = [e for e in own if e.signal is not None and e.signal not in POLITE]
    return tuple(hard or own)
