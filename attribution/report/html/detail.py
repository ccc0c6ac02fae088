"""One attempt for the report: its document, its marks on a timeline, its progress points, the commands to copy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attribution.model import ProgressPoint
    from attribution.store import Store

#: Lanes and marks of one timeline; what is beyond is counted, not drawn.
MOST_LANES = 48
MOST_MARKS = 600
_ORDER = {"root": 0, "confirmation": 1, "cascade": 2, "teardown": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One line on the timeline. `role` is root, confirmation, cascade or teardown; `episode` 0 is the answer."""

    role: str
    episode: int
    signature: str
    path: str
    line: int
    lane: str
    text: str
    time_s: float | None = None
    count: int = 1
    recovered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Marks in lanes. `timed` says whether the axis is time (seconds) or, without stamps, the order of lines."""

    lanes: tuple[str, ...]
    marks: tuple[tuple[float, Mark], ...]
    timed: bool
    left_out: int = 0
    unstamped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """Everything that the page of one attempt shows. `points` is None where the log was not read again."""

    document: Mapping[str, Any]
    timeline: Timeline
    points: tuple[ProgressPoint, ...] | None = None
    commands: tuple[tuple[str, str], ...] = ()


def read(store: Store, attempt_id: str, *, points: Sequence[ProgressPoint] | None = None) -> Detail:
    """The newest analysis of an attempt; a unique beginning of its id will do.

    Raises:
        StoreError: no attempt, or several, begin so.
    """
    document = store.document(attempt_id)
    frame = store.sql(
        "select e.role, e.episode, e.signature, e.path, e.line, e.rank, any_value(m.text), any_value(m.time_s),"
        " max(m.count), any_value(m.host), e.recovered from episodes e left join matches m on"
        " m.attempt_id = e.attempt_id and m.signature = e.signature and m.path = e.path and m.line = e.line and"
        " m.rank is not distinct from e.rank where e.attempt_id = ? group by all"
        " order by e.episode, e.path, e.line, e.role, e.signature",
        [document["attempt"]["id"]],
    )
    marks = [_mark(r) for r in frame.iter_rows()]
    return Detail(
        document=document,
        timeline=timeline(marks),
        points=tuple(points) if points is not None else None,
        commands=commands(document, str(store.path)),
    )


def _mark(r: Sequence[Any]) -> Mark:
    name = str(r[3]).rsplit("/", 1)[-1]
    lane = f"rank {r[5]}" if r[5] is not None else f"host {r[9]}" if r[9] else name
    return Mark(
        role="root" if r[0] == "initiating" else str(r[0]), episode=r[1], signature=r[2], path=r[3], line=r[4], lane=lane,
        text=r[6] or "", time_s=r[7], count=r[8] or 1, recovered=bool(r[10]),
    )  # fmt: skip


def timeline(marks: Sequence[Mark]) -> Timeline:
    """Lay marks out: ranks in order, then hosts and files; by time where most are stamped, else by their order."""
    kept = sorted(marks, key=lambda m: (m.episode, _ORDER.get(m.role, 9)))[:MOST_MARKS]
    stamped = [m for m in kept if m.time_s is not None]
    timed = len(stamped) * 2 > len(kept) and len({m.time_s for m in stamped}) > 1
    shown = stamped if timed else kept
    if timed:
        places = [(float(m.time_s or 0.0), m) for m in shown]
    else:
        # Files are not on one clock: each line's share of the distinct lines of its file, so that order shows per file.
        ranked = {m: i for i, m in enumerate(sorted(shown, key=lambda m: (m.path, m.line)))}
        places = [(float(ranked[m]), m) for m in shown]
    lanes = sorted({m.lane for m in shown}, key=_lane_key)
    roots = {m.lane for m in shown if m.role == "root"}
    kept_lanes = sorted(sorted(lanes, key=lambda x: x not in roots)[:MOST_LANES], key=_lane_key)
    inside = set(kept_lanes)
    visible = tuple(sorted(((x, m) for x, m in places if m.lane in inside), key=lambda p: (p[0], _lane_key(p[1].lane))))
    return Timeline(
        lanes=tuple(kept_lanes),
        marks=visible,
        timed=timed,
        left_out=len(marks) - len(visible) - (len(kept) - len(shown)),
        unstamped=len(kept) - len(shown),
    )


def _lane_key(lane: str) -> tuple[int, int, str]:
    kind, _, number = lane.partition(" ")
    return (0, int(number), "") if kind == "rank" and number.isdigit() else (1, 0, lane)


def commands(document: Mapping[str, Any], store: str) -> tuple[tuple[str, str], ...]:
    """(what it does, shell command) for a reader to copy. Names from logs are quoted; nothing here is ever run."""
    attempt, advice = document["attempt"], document["advice"] or {}
    out = [("Show the whole chain", shlex.join(["recovery", "explain", attempt["id"], "--store", store]))]
    root = document["root"]
    if root:
        out.append(("Read the root line in place", shlex.join(["less", f"+{root['line']}", "--", root["path"]])))
    out.append(
        (
            "Take this case along",
            shlex.join(["recovery", "bundle", attempt["id"], "--store", store, "-o", "case.tar.zst"]),
        )
    )
    out.extend(("Carry the Advice out", shlex.join(map(str, c))) for c in advice.get("commands") or ())
    nodes = advice.get("exclude_nodes") or ()
    if nodes and not advice.get("commands"):
        out.append(("Submit without the node", shlex.join(["sbatch", f"--exclude={','.join(nodes)}", "JOB_SCRIPT"])))
    return tuple(out)
