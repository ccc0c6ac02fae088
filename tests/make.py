"""Small makers for tests: evidence from a few real lines, through the real scanner and rules."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from attribution.analyze import Analyzer, Options
from attribution.model import Evidence, Match, Place, ProgressPoint, Role
from attribution.result import Result
from attribution.sources.discover import discover


@lru_cache(maxsize=1)
def analyzer() -> Analyzer:
    """One analyzer for the whole suite: loading rules is the slow part."""
    return Analyzer(Options(each=True, mine=False))


def results(path: Path) -> tuple[Result, ...]:
    """Results of one file or folder, analysed as one job."""
    return tuple(r for job in discover([str(path)], each=True).groups for r in analyzer().job(job))


def verdict_of(folder: Path, text: str, name: str = "job.log") -> Result:
    """The last result of a log with this text."""
    path = folder / name
    path.write_text(text)
    return results(path)[-1]


def evidence_of(folder: Path, text: str, name: str = "job.log") -> Evidence:
    """The evidence of a log with this text."""
    return verdict_of(folder, text, name).evidence


def match(failure_class: str | None, line: int = 1, **more: object) -> Match:
    """A match at a line of ``job.log``; `place` takes fields of Place."""
    place = {"path": "job.log", "line": line, "offset": line * 100, **more.pop("place", {})}  # type: ignore[dict-item]
    values: dict[str, object] = {"signature": f"test.{failure_class}", "role": Role.ROOT, "text": "text", **more}
    return Match(failure_class=failure_class, place=Place(**place), **values)  # type: ignore[arg-type]


def points(
    steps: range, *, seconds: float = 1.0, start: float = 0.0, loss: float = 2.0, first_line: int = 1
) -> tuple[ProgressPoint, ...]:
    """Progress points of a run with an even rhythm."""
    return tuple(
        ProgressPoint(
            place=Place(path="job.log", line=first_line + i, offset=(first_line + i) * 100, time_s=start + i * seconds),
            dialect="megatron",
            step=s,
            total_steps=1000,
            loss=loss,
        )
        for i, s in enumerate(steps)
    )
