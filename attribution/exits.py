"""How ranks and tasks ended, from every witness: srun, torchrun, mpirun, a launcher's summary, accounting.

A launcher names the first exit that it *saw*. Which exit came first is decided here by signals: a process that its
launcher terminated (SIGTERM, or SIGKILL behind a SIGTERM that it did not obey) is collateral and never first.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from attribution.model import Match, Place, Role
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
        out.extend(range(a, min(b + 1, a + limit - len(out))))
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


def primary(exits: Sequence[RankExit]) -> tuple[RankExit, ...]:
    """The exits that are nobody's collateral, signals that no program chooses before exit codes."""
    own = [e for e in exits if not e.collateral]
    hard = [e for e in own if e.signal is not None and e.signal not in POLITE]
    return tuple(hard or own)


def resolved(exits: Sequence[RankExit]) -> tuple[RankExit, ...]:
    """The same exits, each completed by what other witnesses say of the same process.

    Two lines speak of one process where file, speaker's host and pid agree: an agent knows the local rank and the pid,
    its summary the global rank, the node's own name and the pid.
    """
    best: dict[tuple[str, str | None, int], RankExit] = {}
    for e in exits:
        if e.pid is None:
            continue
        key = (e.place.path, e.place.host, e.pid)
        old = best.get(key)
        if old is None:
            best[key] = e
            continue
        best[key] = replace(
            old,
            rank=old.rank if old.rank is not None else e.rank,
            local_rank=old.local_rank if old.local_rank is not None else e.local_rank,
            node=e.node if e.summary and e.node else old.node,
        )
    out = []
    for e in exits:
        full = best.get((e.place.path, e.place.host, e.pid)) if e.pid is not None else None
        if full is not None:
            e = replace(e, rank=full.rank, local_rank=full.local_rank, node=full.node or e.node)
        out.append(e)
    return tuple(out)


def signalled_pids(matches: Iterable[Match]) -> frozenset[tuple[str, int]]:
    """(file, pid) of processes that their own launcher ended: what they print afterwards is collateral."""
    out = set()
    for m in matches:
        if m.role is Role.TEARDOWN and "rank_exit" not in m.marks and "signal" in m.fields:
            pid = whole(m.fields.get("pid"))
            if pid is not None:
                out.add((m.place.path, pid))
    return frozenset(out)


def interpret(matches: Sequence[Match]) -> tuple[Match, ...]:
    """Matches with exits understood: rank and node filled in, and collateral exits turned into teardown.

    An exit by a polite signal is collateral where the process's own launcher sent it, or, where no process id tells,
    where somebody else ended by himself: launchers and schedulers terminate the rest behind the first failure.
    """
    exits = resolved(collect(matches))
    if not exits:
        return tuple(matches)
    by_match = {id(e.match): e for e in exits}
    signalled = signalled_pids(matches)
    others = any(not e.collateral for e in exits if e.signal != 15)
    out = []
    for m in matches:
        e = by_match.get(id(m))
        if e is None:
            out.append(m)
            continue
        fields = dict(m.fields)
        if e.rank is not None:
            fields["rank"] = str(e.rank)
        if e.local_rank is not None:
            fields.setdefault("local_rank", str(e.local_rank))
        if e.node:
            fields["node"] = e.node
        sent = others if e.pid is None else (m.place.path, e.pid) in signalled
        role = m.role
        if m.role in (Role.ROOT, Role.CASCADE) and e.signal in POLITE and sent:
            role = Role.TEARDOWN
        out.append(replace(m, fields=fields, role=role))
    return tuple(out)
