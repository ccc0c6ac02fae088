"""Coverage: which messages of the emitters' catalogues do the signatures recognise, with class and role?

A catalogue is a folder of ``NAME.jsonl`` with one row per message (``id, example, severity, role, cause, tier``) and
``causes.yaml``, which maps a row's cause to the acceptable classes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from attribution.model import Match, Role, RuleError, Source
from attribution.signatures.engine import Engine, speakers
from attribution.signatures.proof import parsed

#: Kinds of log in which the messages of a catalogue file may stand; job logs where a file is not listed.
_SOURCES: dict[str, tuple[Source, ...]] = {
    "kernel": (Source.KERNEL_LOG, Source.JOB_LOG),
    "xid": (Source.KERNEL_LOG, Source.JOB_LOG),
    "sxid": (Source.KERNEL_LOG, Source.JOB_LOG),
    "mpi_ucx_ib": (Source.JOB_LOG, Source.KERNEL_LOG),
    "slurm": (Source.JOB_LOG, Source.SLURM_LOG, Source.ACCOUNTING),
}
_ACCUSING = frozenset({Role.ROOT, Role.CASCADE, Role.CONFIRMATION, Role.TEARDOWN})
_HARMLESS = frozenset({Role.NOISE, Role.CONTEXT, Role.PROGRESS})
#: Rows per buffer: fewer than the number from which the matcher thins lines of one kind.
_BATCH = 1_000

#: Share that must be recognised, by (file, tier) of severity fatal and error; tier 1 holds for every file.
TARGETS: dict[tuple[str, int], float] = {
    ("nccl", 2): 0.95,
    ("slurm", 2): 0.95,
    ("kernel", 2): 0.95,
    ("mpi_ucx_ib", 2): 0.95,
    ("pytorch", 2): 0.90,
    ("frameworks", 2): 0.90,
    ("python", 2): 0.90,
}
TIER_1_TARGET = 0.99
PROGRESS_TARGET = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One message of a catalogue. `group` is failure (severity fatal, error), progress or rest."""

    id: str
    file: str
    tier: int
    group: str
    role: Role
    cause: str
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A row and whether it is covered. `why` says what is wrong; `signatures` what was heard."""

    row: Row
    covered: bool
    waived: bool
    why: str
    signatures: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Rows of one file, tier and group; waived rows are counted in `waived` only."""

    file: str
    tier: int
    group: str
    rows: int
    covered: int
    waived: int
    waived_covered: int
    target: float | None

    @property
    def share(self) -> float:
        """Covered share of the rows that are not waived, 1 where there are none."""
        return self.covered / self.rows if self.rows else 1.0

    @property
    def raw_share(self) -> float:
        """Covered share of all rows, as if nothing were waived."""
        everything = self.rows + self.waived
        return (self.covered + self.waived_covered) / everything if everything else 1.0

    @property
    def met(self) -> bool:
        """True where no target is missed."""
        return self.target is None or self.share >= self.target


def read_catalog(folder: Path) -> tuple[list[Row], dict[str, tuple[str, ...]]]:
    """Rows and the map of causes to acceptable classes.

    Raises:
        RuleError: the folder holds no catalogue, or a row lacks a field.
    """
    causes_file = folder / "causes.yaml"
    if not causes_file.is_file():
        raise RuleError("no causes.yaml here", where=str(folder), mend="give the folder of a catalogue")
    causes = {k: tuple(v) for k, v in yaml.safe_load(causes_file.read_bytes()).items()}
    rows: list[Row] = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                rows.append(_row(path.stem, orjson.loads(line)))
            except (KeyError, ValueError, TypeError) as error:
                raise RuleError(f"not a catalogue row: {error}", where=f"{path}:{number}") from error
    return rows, causes


def _row(file: str, plain: Mapping[str, Any]) -> Row:
    role = Role(plain["role"])
    group = "progress" if role is Role.PROGRESS else "failure" if plain["severity"] in ("fatal", "error") else "rest"
    return Row(
        id=str(plain["id"]),
        file=file,
        tier=int(plain["tier"]),
        group=group,
        role=role,
        cause=str(plain["cause"]),
        example=str(plain["example"]),
    )


def read_waivers(path: Path | None) -> dict[str, str]:
    """Waived row ids and the reason.

    Raises:
        RuleError: an entry lacks its reason or source.
    """
    if path is None or not path.is_file():
        return {}
    out: dict[str, str] = {}
    for row, entry in (yaml.safe_load(path.read_bytes()) or {}).items():
        if not isinstance(entry, dict) or not entry.get("reason") or not entry.get("source"):
            raise RuleError(f"waiver {row!r} needs a reason and a source", where=str(path))
        out[str(row)] = str(entry["reason"])
    return out


def _heard(rows: Sequence[Row], source: Source, engine: Engine) -> list[list[Match]]:
    """Heard matches of each row's lines in a log of one kind; one buffer for many rows."""
    out: list[list[Match]] = []
    for first in range(0, len(rows), _BATCH):
        batch = rows[first : first + _BATCH]
        texts: list[bytes] = []
        owner: list[int] = []
        for i, row in enumerate(batch):
            pieces = row.example.encode("utf-8", "replace").split(b"\n")
            texts += pieces
            owner += [i] * len(pieces)
        data = b"\n".join(texts)
        starts: dict[int, int] = {}
        at = 0
        for number, text in enumerate(texts):
            starts[at] = number
            at += len(text) + 1
        found: list[list[Match]] = [[] for _ in batch]
        for hit in engine.scan_block(data):
            number = starts[hit.start]
            for line in parsed(texts[number].decode("utf-8"), source):
                found[owner[number]].extend(speakers(engine.verify(line, hit.signatures)))
        out += found
    return out


def _verdict(row: Row, heard: Sequence[Match], causes: Mapping[str, tuple[str, ...]]) -> str:
    """Empty where the row is covered, else what is wrong."""
    accusing = [m for m in heard if m.role in _ACCUSING]
    if row.role is Role.PROGRESS:
        good = any(m.role is Role.PROGRESS or (m.role is Role.CONTEXT and m.marks) for m in heard)
        return "" if good else "not recognised as progress"
    accepted = causes.get(row.cause)
    if row.role is Role.NOISE or accepted is None:
        blamed = next((m for m in heard if m.role is Role.ROOT), None)
        return f"accuses: {blamed.failure_class}" if blamed is not None else ""
    if any(m.failure_class in accepted for m in accusing):
        return ""
    if accusing:
        return f"class {accusing[0].failure_class}, not {' or '.join(accepted)}"
    if heard:
        return f"role {heard[0].role}"
    return "not recognised"


def judge(
    rows: Sequence[Row], causes: Mapping[str, tuple[str, ...]], engine: Engine, waivers: Mapping[str, str]
) -> list[Judged]:
    """Judge every row, in the order given."""
    by_file: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_file[row.file].append(row)
    judged: dict[str, list[Judged]] = {}
    for file, some in by_file.items():
        sources = _SOURCES.get(file, (Source.JOB_LOG,))
        per_source = [_heard(some, source, engine) for source in sources]
        judged[file] = [
            _judge_row(row, [heard[i] for heard in per_source], causes, row.id in waivers) for i, row in enumerate(some)
        ]
    return [j for file in sorted(judged) for j in judged[file]]


def _judge_row(
    row: Row, by_source: Sequence[Sequence[Match]], causes: Mapping[str, tuple[str, ...]], waived: bool
) -> Judged:
    """A failure needs one kind of log that recognises it; a harmless row must be harmless in every one."""
    verdicts = [_verdict(row, heard, causes) for heard in by_source]
    harmless = row.role is Role.NOISE or (row.role is not Role.PROGRESS and row.cause not in causes)
    if harmless:
        why = next((v for v in verdicts if v), "")
    else:
        why = "" if "" in verdicts else next((v for v in verdicts if v != "not recognised"), verdicts[0])
    names = tuple(dict.fromkeys(m.signature for heard in by_source for m in heard))
    return Judged(row=row, covered=not why, waived=waived, why=why, signatures=names)


def target_of(file: str, tier: int, group: str) -> float | None:
    """Share that must be recognised, None where it is only reported."""
    if group == "progress":
        return PROGRESS_TARGET
    if group != "failure":
        return None
    return TIER_1_TARGET if tier == 1 else TARGETS.get((file, tier))


def cells(judged: Iterable[Judged]) -> list[Cell]:
    """Counts per file, tier and group, sorted."""
    groups: dict[tuple[str, int, str], list[Judged]] = defaultdict(list)
    for j in judged:
        groups[(j.row.file, j.row.tier, j.row.group)].append(j)
    return [
        Cell(
            file=file,
            tier=tier,
            group=group,
            rows=sum(not j.waived for j in some),
            covered=sum(j.covered and not j.waived for j in some),
            waived=sum(j.waived for j in some),
            waived_covered=sum(j.waived and j.covered for j in some),
            target=target_of(file, tier, group),
        )
        for (file, tier, group), some in sorted(groups.items())
    ]
