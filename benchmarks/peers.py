"""Peers in the same run: ripgrep with the same patterns, Drain3 with the same masks, our own fallback engine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.__main__ import Row, Run

SLICE = 6_000_000
ROOT = Path(__file__).resolve().parent.parent


def rows(folder: Path, measure: Callable[[list[str]], Run]) -> list[Row]:
    """Rows of the table; a peer that is not installed is left out with a word."""
    return [*_ripgrep(folder, measure), *_drain(folder), *_engines(folder)]


def _patterns() -> list[str]:
    from attribution import resources
    from attribution.signatures import load

    seen = {}
    for s in load((resources.rules_dir(),)).signatures:
        for p in s.any:
            seen[("(?i)" if p.ignore_case else "") + re.sub(r"\?P<\w+>", "", p.source).lstrip("^")] = None
    return list(seen)


def _ripgrep(folder: Path, measure: Callable[[list[str]], Run]) -> list[Row]:
    from benchmarks.__main__ import Row

    rg = shutil.which("rg")
    if rg is None:
        print("ripgrep is not installed (Debian package ripgrep): left out", file=sys.stderr)
        return []
    file = folder / "patterns.txt"
    # ripgrep refuses a few patterns (a line end in a set, ...); they are left out for it, in its favour.
    taken = [
        p
        for p in _patterns()
        if p.isascii()
        and subprocess.run([rg, "-q", "--no-unicode", "-e", p, "/dev/null"], capture_output=True).returncode != 2
    ]
    file.write_text("\n".join(taken) + "\n", encoding="utf-8")
    out = []
    for kind in ("mix", "repetitive"):
        pairs = []
        for _ in range(1):
            ours = measure([sys.executable, "-m", "benchmarks.match_only", str(folder / kind)])
            theirs = measure(
                [
                    rg,
                    "-j1",
                    "--no-mmap",
                    "-c",
                    "--no-unicode",
                    "--regex-size-limit",
                    "4G",
                    "--dfa-size-limit",
                    "1G",
                    "-f",
                    str(file),
                    str(folder / kind),
                ]
            )
            if theirs.code == 2:
                print("ripgrep refused the patterns: left out", file=sys.stderr)
                return []
            pairs.append(ours.cpu_s / theirs.cpu_s)
        out.append(
            Row(
                f"matching stage against ripgrep, {kind}",
                f"{pairs[0]:.3f} of its CPU time",
                "<= 0.6",
                "rg -j1 --no-mmap -c -f PATTERNS",
            )
        )
    return out


def _lines(path: Path) -> Iterator[str]:
    data = path.read_bytes()[:SLICE]
    for line in data.replace(b"\r", b"\n").split(b"\n"):
        if line:
            yield line[:2000].decode("utf-8", "replace")


def _drain(folder: Path) -> list[Row]:
    """Plain Drain3, line by line, with the same masks in Python's `re`, against our shapes, masks and mining."""
    from drain3 import TemplateMiner
    from drain3.template_miner_config import TemplateMinerConfig

    from attribution.shapes import ShapeCounter
    from attribution.sources.blocks import block_of
    from attribution.templates import MASKS, Miner, mask
    from benchmarks.__main__ import Row

    out = []
    for kind, wanted in (("mix", 15), ("repetitive", 30)):
        path = sorted((folder / kind).iterdir())[0]
        masks = [(re.compile(p), w) for p, w in MASKS]
        config = TemplateMinerConfig()
        config.drain_sim_th, config.drain_depth, config.drain_max_children = 0.5, 4, 128
        plain = TemplateMiner(config=config)
        start = time.process_time()
        for line in _lines(path):
            text = line
            for pattern, word in masks:
                text = pattern.sub(word, text)
            plain.add_log_message(text.strip())
        theirs = time.process_time() - start
        data = path.read_bytes()[:SLICE]
        start = time.process_time()
        for _ in range(10):  # ten times, for a time that can be told
            counter = ShapeCounter(str(path))
            counter.feed(block_of(data, 0, 1))
            Miner().mine({"a": mask(counter.counts())})
        ours = (time.process_time() - start) / 10
        out.append(
            Row(
                f"mining against plain Drain3, {kind}",
                f"{theirs / ours:.0f} times as fast",
                f">= {wanted} times",
                "drain3, same masks, line by line",
            )
        )
    return out


def _engines(folder: Path) -> list[Row]:
    """The engine without a wheel finds the same matches and gives the same diagnoses."""
    from attribution.analyze import Options, analyze
    from attribution.report.json import diagnosis_document
    from benchmarks.__main__ import Row

    paths = [str(sorted((folder / kind).iterdir())[0]) for kind in ("mix", "repetitive")]
    paths += [str(p) for p in sorted((ROOT / "data" / "samples").rglob("*.log"))]
    fast, plain = (
        [
            # As text, since a loss that is NaN equals nothing.
            repr(
                (r.evidence.matches, r.evidence.progress, diagnosis_document(r.evidence.attempt, r.diagnosis, r.advice))
            )
            for r in analyze(paths, Options(engine=e, mine=False))
        ]
        for e in ("hyperscan", "python")
    )
    return [
        Row(
            f"matches, progress and diagnoses of {len(fast)} attempts by the fallback engine",
            "identical" if fast == plain else "DIFFERENT",
            "identical",
            "recovery analyze --engine python",
        )
    ]
