"""Scores diagnoses against labels in the corpus format: what is right, how often, with which interval.

A label is one JSON object per line: ``path``, ``outcome_ok``, ``class_ok``, ``root_lines``, ``culprit_ranks``,
``culprit_nodes``, ``action_ok``, ``source``. A field that is null is not scored. A prediction is a
``recovery.diagnosis/1`` document. Everything is counted, nothing sampled: equal input gives equal output.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attribution.model import SourceError

#: Lines that a named root may be away from a labelled one.
ROOT_SLACK = 2
STOPS = frozenset({"hold", "terminate"})
GOES = frozenset({"restart", "restart_excluding", "none"})
FIELDS = (
    "outcome",
    "family",
    "class",
    "root",
    "rank_precision",
    "rank_recall",
    "node_precision",
    "node_recall",
    "action",
    "wrong_stop",
    "burnt",
    "alarms",
    "abstained",
)
#: Fields in which a hit is bad.
BAD = frozenset({"wrong_stop", "burnt", "alarms", "abstained"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One field of one case that was not as labelled."""

    case: str
    field: str
    got: str
    gold: str


@dataclass(slots=True)
class Score:
    """Counts per field, with the breakdowns that a reader asks for."""

    cases: int = 0
    unanswered: int = 0
    hit: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    by_family: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    by_source: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    by_status: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    calibration: list[tuple[float, bool]] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)

    def mark(self, name: str, ok: bool, case: str, got: object, gold: object) -> None:
        """Count one scored field; a miss is kept with what was got and what was labelled."""
        self.total[name] += 1
        self.hit[name] += ok
        if ok is (name in BAD):
            self.misses.append(Miss(case=case, field=name, got=str(got), gold=str(gold)))


def wilson(k: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval of a share `k` of `n` (E. B. Wilson 1927); (0, 1) where nothing was counted."""
    if n == 0:
        return (0.0, 1.0)
    p = k / n
    d = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / d
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / d
    return (max(0.0, centre - half), min(1.0, centre + half))


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Objects of a JSON-lines file.

    Raises:
        SourceError: the file cannot be read, or a line is no JSON object.
    """
    out = []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}", where=str(path)) from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise SourceError(f"no JSON: {error}", where=f"{path}:{number}") from error
        if not isinstance(row, dict):
            raise SourceError("expected an object", where=f"{path}:{number}")
        out.append(row)
    return out


def belongs(case_path: str, file: str) -> bool:
    """True where a document's file is the case's file, or lies in the case's folder."""
    file = file.replace("\\", "/")
    return file == case_path or file.endswith("/" + case_path) or f"/{case_path.rstrip('/')}/" in f"/{file}"


def _index(documents: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    by_part: dict[str, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for d in documents:
        for file in (d.get("attempt") or {}).get("files") or ():
            for part in set(file.replace("\\", "/").split("/")):
                by_part[part].append((file, d))
    return by_part


def _as_list(value: object) -> list[object]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _node(value: object) -> str:
    text = str(value).lower()
    return text if text.replace(".", "").isdigit() else text.split(".")[0]


def _root_ok(root: Mapping[str, Any], gold: Sequence[object]) -> bool:
    for want in gold:
        file, line = (want.get("file"), want.get("line")) if isinstance(want, dict) else (None, want)
        in_file = file is None or str(root.get("path", "")).endswith(str(file))
        got = root.get("line")
        if in_file and isinstance(got, int) and isinstance(line, int) and abs(got - line) <= ROOT_SLACK:
            return True
    return False


def _culprits(score: Score, name: str, got: list[object], gold: object, case: str) -> None:
    if not isinstance(gold, list):
        return
    norm = _node if name == "node" else str
    want = {norm(x) for x in gold}
    if want:
        score.mark(f"{name}_recall", any(norm(x) in want for x in got), case, got, sorted(want))
    if got:
        score.mark(f"{name}_precision", all(norm(x) in want for x in got), case, got, sorted(want))


def score_case(score: Score, label: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    """Add one case to `score`."""
    case = str(label.get("id") or label["path"])
    outcome, got = str(document.get("outcome")), str(document.get("class") or "")
    score.mark("outcome", outcome in label["outcome_ok"], case, outcome, label["outcome_ok"])
    if label["outcome"] == "completed":
        score.mark("alarms", outcome not in ("completed", "running"), case, f"{outcome} {got}", "completed")
    if label.get("class_ok"):
        families = {c.split(".")[0] for c in label["class_ok"]}
        right = got in label["class_ok"]
        score.mark("family", got.split(".")[0] in families, case, got, label["class_ok"])
        score.mark("class", right, case, got, label["class_ok"])
        score.mark("abstained", got in ("", "unknown.unrecognised"), case, got, label["class_ok"])
        for table, key in (
            (score.by_family, str(label["class"]).split(".")[0]),
            (score.by_source, str(label.get("source"))),
            (score.by_status, str(document.get("status"))),
        ):
            table[key][0] += right
            table[key][1] += 1
        if not right:
            score.confusion[(str(label["class"]), got)] += 1
        confidence = document.get("confidence")
        if isinstance(confidence, int | float):
            score.calibration.append((float(confidence), right))
    if label.get("root_lines"):
        root = document.get("root") or {}
        score.mark("root", _root_ok(root, label["root_lines"]), case, root.get("line"), label["root_lines"])
    culprit = document.get("culprit") or {}
    _culprits(score, "rank", _as_list(culprit.get("rank")), label.get("culprit_ranks"), case)
    _culprits(score, "node", _as_list(culprit.get("node")), label.get("culprit_nodes"), case)
    _score_action(score, label, document, case)


def _score_action(score: Score, label: Mapping[str, Any], document: Mapping[str, Any], case: str) -> None:
    wanted = label.get("action_ok")
    if not wanted:
        return
    action = str((document.get("advice") or {}).get("action"))
    score.mark("action", action in wanted, case, action, wanted)
    if set(wanted) <= GOES:
        score.mark("wrong_stop", action in STOPS, case, action, wanted)
    if set(wanted) <= STOPS:
        score.mark("burnt", action in GOES - {"none"}, case, action, wanted)


def evaluate(labels: Sequence[Mapping[str, Any]], documents: Sequence[Mapping[str, Any]]) -> Score:
    """Score `documents` against `labels`. Of several documents of one file the last counts."""
    by_part = _index(documents)
    score = Score()
    for label in labels:
        path = str(label["path"])
        own = [d for f, d in by_part.get(path.rstrip("/").rsplit("/", 1)[-1], []) if belongs(path, f)]
        score.cases += 1
        score.unanswered += not own
        score_case(score, label, own[-1] if own else {})
    return score


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """One bin of the reliability table: predicted and observed share of right classes."""

    low: float
    high: float
    n: int
    predicted: float
    observed: float


def reliability(
    pairs: Sequence[tuple[float, bool]], edges: Sequence[float] = (0, 0.4, 0.6, 0.75, 0.9, 1.0)
) -> list[Bin]:
    """Reliability table of (confidence, right) pairs over the given bin edges; empty bins are left out."""
    out = []
    for low, high in itertools.pairwise(edges):
        inside = [(c, ok) for c, ok in pairs if low < c <= high or (low == 0 and c == 0)]
        if inside:
            n = len(inside)
            out.append(
                Bin(
                    low=low,
                    high=high,
                    n=n,
                    predicted=sum(c for c, _ in inside) / n,
                    observed=sum(ok for _, ok in inside) / n,
                )
            )
    return out


def expected_calibration_error(pairs: Sequence[tuple[float, bool]]) -> float:
    """Mean gap between predicted and observed share over the bins, weighted by their size."""
    n = len(pairs)
    return sum(b.n / n * abs(b.predicted - b.observed) for b in reliability(pairs)) if n else 0.0


def as_plain(score: Score) -> dict[str, Any]:
    """The score as JSON values, keys in a fixed order."""
    rows = {}
    for name in FIELDS:
        if score.total[name]:
            k, n = score.hit[name], score.total[name]
            low, high = wilson(k, n)
            rows[name] = {"k": k, "n": n, "rate": round(k / n, 4), "low": round(low, 4), "high": round(high, 4)}
    return {
        "cases": score.cases,
        "unanswered": score.unanswered,
        "fields": rows,
        "by_family": dict(sorted(score.by_family.items())),
        "by_status": dict(sorted(score.by_status.items())),
        "by_source": dict(sorted(score.by_source.items())),
        "confusion": [[a, b, n] for (a, b), n in sorted(score.confusion.items(), key=lambda x: (-x[1], x[0]))],
        "calibration_error": round(expected_calibration_error(score.calibration), 4),
        "reliability": [
            [b.low, b.high, b.n, round(b.predicted, 3), round(b.observed, 3)] for b in reliability(score.calibration)
        ],
        "misses": [[m.case, m.field, m.got, m.gold] for m in score.misses],
    }
