"""How cost grows: with bytes, and with the number of signatures."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.__main__ import Row


def _rules(folder: Path, count: int) -> None:
    """A rule folder with `count` invented signatures whose words occur nowhere."""
    (folder / "signatures").mkdir(parents=True)
    (folder / "taxonomy.yaml").write_text("unknown:\n  unrecognised: {domain: unknown, action: restart, means: x}\n")
    lines = ["signatures:"]
    for i in range(count):
        lines.append(  # noqa: PERF401
            f"- {{id: synthetic.r{i}, title: t, class: unknown.unrecognised, role: root, status: test, specificity: 20, limits: l, fix: f, "
            f"match: {{any: ['subsystem{i} unit(?P<unit>\\d+) failed with code{i * 7919 % 100_003} after']}}, "
            f"examples: [{{text: 'subsystem{i} unit1 failed with code{i * 7919 % 100_003} after'}}], counterexamples: [{{text: 'all well'}}]}}"
        )
    (folder / "signatures" / "synthetic.yaml").write_text("\n".join(lines) + "\n")


def _scan_seconds(rules: Path, logs: list[Path]) -> float:
    from attribution.match import Matcher
    from attribution.match.shapes import FileShapes, ShapeMatcher
    from attribution.model import Source
    from attribution.signatures import load
    from attribution.sources.blocks import ReadReport, read_blocks
    from attribution.sources.discover import discover

    matcher = Matcher(load((rules,), cache=False))
    shapes = ShapeMatcher(matcher)
    shapes.kinds([b"warm up"], Source.JOB_LOG)
    start = time.process_time()
    for job in discover([str(p) for p in logs]).groups:
        for file in job.files:
            state, sampler = FileShapes(shapes, file.display, file.source), matcher.sampler(file.source)
            for block in read_blocks(file, report=ReadReport()):
                state.candidates(block, sampler)
    return time.process_time() - start


def rows(folder: Path) -> list[Row]:
    """Rows of the table."""
    from benchmarks.__main__ import Row

    logs = sorted((folder / "mix").iterdir())[:12]
    with tempfile.TemporaryDirectory() as temporary:
        times = {}
        for count in (300, 10_000):
            rules = Path(temporary) / str(count)
            _rules(rules, count)
            times[count] = _scan_seconds(rules, logs)
        half, whole = (_scan_seconds(Path(temporary) / "300", logs[:n]) for n in (6, 12))
    return [
        Row(
            "10,000 signatures against 300, matching stage",
            f"{times[10_000] / times[300]:.2f} times the time",
            "<= 3 times",
            "benchmarks/growth.py",
        ),
        Row("twice the bytes, matching stage", f"{whole / half:.2f} times the time", "about 2", "benchmarks/growth.py"),
    ]
