"""Scenario tests: lines over time and ranks, and the verdict that they must give, or that nothing fires.

``rules/tests/*.yaml`` hold them::

    scenarios:
      - name: a GPU falls off the bus and its peers time out
        lines:
          - {t: 0, rank: 0, text: "iteration {n}/ 500 | loss: 2.1", times: 20, every_s: 5, start: 1}
          - {t: 100, host: gpu-003, source: kernel_log, text: "NVRM: Xid (PCI:0000:38:00): 79, ..."}
          - {t: 700, rank: 1, text: "..."}
        expect: {class: gpu_hw.off_bus, root_line: 2, culprit: {nodes: [gpu-003]}}

`root_line` counts the entries of `lines` from 1. ``expect: nothing`` means that no failure may be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attribution.model import Diagnosis, Outcome, RuleError, Source
from attribution.signatures.findings import Finding
from attribution.signatures.merge import problems
from attribution.signatures.positions import parse

#: Scenarios begin at this second; any will do, and a fixed one keeps verdicts the same.
EPOCH_S = 1_767_225_600  # 2026-01-01T00:00:00Z
#: Classes that accuse nothing: a scenario stops somewhere, and its last line need not be an ending.
_NO_FAULT = ("healthy.", "unknown.log_truncated")
_FINE = frozenset({Outcome.COMPLETED, Outcome.RUNNING, Outcome.UNKNOWN, Outcome.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of `lines`, maybe repeated. `time_s` is relative to the scenario's start."""

    text: str
    time_s: float | None = None
    rank: int | None = None
    host: str | None = None
    file: str = "job.log"
    source: Source = Source.JOB_LOG
    times: int = 1
    every_s: float = 1.0
    start: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must come out; a name that is not in `said` is not looked at. `nothing` means no failure."""

    nothing: bool = False
    said: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One test. `where` is ``path:line``."""

    name: str
    entries: tuple[Entry, ...]
    expect: Expectation
    path: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A scenario as log files, and the entry that each (file name, line) came from."""

    files: dict[str, bytes]
    kernel_files: tuple[str, ...]
    entry_of: dict[tuple[str, int], int]


def load_scenarios(folder: Path) -> tuple[list[Scenario], list[Finding]]:
    """Scenarios of ``folder/*.yaml`` in a fixed order, and what is wrong with the files."""
    out: list[Scenario] = []
    findings: list[Finding] = []
    for path in sorted(folder.glob("*.yaml")):
        doc, wrong = parse(path.read_bytes(), path)
        findings += wrong
        if doc is None:
            continue
        wrong = problems(doc, "scenarios")
        findings += wrong
        if not wrong:
            out += [_scenario(s, str(path), doc.line(f"scenarios.{i}")) for i, s in enumerate(doc.value["scenarios"])]
    return out, findings


def _scenario(plain: dict[str, Any], path: str, line: int) -> Scenario:
    expect = plain["expect"]
    return Scenario(
        name=plain["name"],
        entries=tuple(_entry(e) for e in plain["lines"]),
        expect=Expectation(nothing=True) if expect == "nothing" else Expectation(said=dict(expect)),
        path=path,
        line=line,
    )


def _entry(plain: dict[str, Any]) -> Entry:
    source = Source(plain.get("source", "job_log"))
    host = plain.get("host")
    standard = "job.log" if source is Source.JOB_LOG else f"{source.value}-{host or 'node'}.log"
    return Entry(
        text=plain["text"],
        time_s=plain.get("t"),
        rank=plain.get("rank"),
        host=host,
        file=plain.get("file", standard),
        source=source,
        times=plain.get("times", 1),
        every_s=plain.get("every_s", 1.0),
        start=plain.get("start", 1),
    )


def _printed(entry: Entry, time_s: float | None, text: str) -> str:
    stamp = "" if time_s is None else datetime.fromtimestamp(EPOCH_S + time_s, UTC).isoformat(timespec="milliseconds")
    if entry.source is Source.KERNEL_LOG:
        return f"{stamp} {entry.host or 'node'} kernel: {text}" if stamp else text
    head = f"{stamp.replace('T', ' ')[:23]} " if stamp else ""
    return f"{head}[rank{entry.rank}]: {text}" if entry.rank is not None else head + text


def render(scenario: Scenario) -> Rendered:
    """Write the scenario as log files, each in the order of time where its lines have one."""
    rows: dict[str, list[tuple[float, int, str]]] = {}
    for number, entry in enumerate(scenario.entries, start=1):
        for i in range(entry.times):
            time_s = None if entry.time_s is None else entry.time_s + i * entry.every_s
            text = entry.text.replace("{n}", str(entry.start + i))
            before = rows.get(entry.file, [])
            order = time_s if time_s is not None else before[-1][0] if before else 0.0
            rows.setdefault(entry.file, []).append((order, number, _printed(entry, time_s, text)))
    files: dict[str, bytes] = {}
    entry_of: dict[tuple[str, int], int] = {}
    for name, some in sorted(rows.items()):
        some.sort(key=lambda r: r[0])
        files[name] = "".join(f"{text}\n" for _, _, text in some).encode()
        entry_of |= {(name, i): number for i, (_, number, _) in enumerate(some, start=1)}
    kernel = sorted({e.file for e in scenario.entries if e.source is Source.KERNEL_LOG})
    return Rendered(files=files, kernel_files=tuple(kernel), entry_of=entry_of)


def differences(expect: Expectation, diagnosis: Diagnosis, rendered: Rendered) -> list[str]:
    """What the verdict has otherwise than expected, in words."""
    if expect.nothing:
        if diagnosis.outcome in _FINE and (diagnosis.failure_class or "healthy.").startswith(_NO_FAULT):
            return []
        return [f"{diagnosis.outcome} {diagnosis.failure_class}, not nothing"]
    root = diagnosis.root
    line = None if root is None else rendered.entry_of.get((Path(root.path).name, root.line))
    culprit = diagnosis.culprit
    got: dict[str, object] = {
        "outcome": diagnosis.outcome.value,
        "class": diagnosis.failure_class,
        "root_line": line,
        "status": diagnosis.status.value,
    }
    out = [f"{k} is {got[k]}, not {v}" for k, v in expect.said.items() if k in got and got[k] != v]
    groups: dict[str, list[str]] = {
        "nodes": list(culprit.nodes),
        "ranks": [str(r) for r in culprit.ranks],
        "gpus": list(culprit.gpus),
    }
    for name, wanted in (expect.said.get("culprit") or {}).items():
        if sorted(groups[name]) != sorted(str(w) for w in wanted):
            out.append(f"culprit {name} {groups[name]}, not {wanted}")
    out += [f"signal {s} is missing" for s in expect.said.get("signals") or () if s not in diagnosis.signals]
    return out


Judge = Callable[[Rendered], Sequence[Diagnosis]]


def run(scenarios: Sequence[Scenario], judge: Judge) -> list[tuple[Scenario, list[str]]]:
    """Run scenarios; `judge` diagnoses rendered files and gives one diagnosis per attempt, the last one counts.

    Returns:
        Every scenario with its differences, none where it holds.

    Raises:
        RuleError: the judge found no attempt in a scenario.
    """
    out: list[tuple[Scenario, list[str]]] = []
    for scenario in scenarios:
        rendered = render(scenario)
        verdicts = judge(rendered)
        if not verdicts:
            raise RuleError("no attempt was found in the scenario", where=f"{scenario.path}:{scenario.line}")
        out.append((scenario, differences(scenario.expect, verdicts[-1], rendered)))
    return out
