"""Every published figure, in one run.

    python -m benchmarks                 the table at 200 MB a corpus (minutes)
    python -m benchmarks --mb 1000       as published
    python -m benchmarks --huge          20 GB through a FIFO as well
    python -m benchmarks --write-docs    puts the table into docs/explanation/performance.md

Throughput is decompressed input (MB of 10^6 bytes) per CPU second of one process, start-up included. Ratios come from
runs that follow each other in this one. Nothing here fails because a machine is slow.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import big_store, growth, peers, sharding
from benchmarks.generate import generate

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "performance.md"
MARK = "<!-- table: written by python -m benchmarks --write-docs -->"


@dataclass(frozen=True, slots=True)
class Run:
    """CPU seconds and peak memory of one finished process."""

    cpu_s: float
    peak_mb: float
    code: int


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    figure: str
    target: str
    command: str


def measure(command: list[str], *, stdin: int | None = None) -> Run:
    """Run a command to its end; CPU time and memory are the operating system's account of it."""
    child = subprocess.Popen(command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, child.returncode)


def best(command: list[str], times: int = 3) -> Run:
    """The median of several runs by CPU time."""
    runs = sorted((measure(command) for _ in range(times)), key=lambda r: r.cpu_s)
    return runs[len(runs) // 2]


def analyze(logs: Path, store: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "benchmarks.recovery",
        "analyze",
        str(logs),
        "--store",
        str(store),
        "-q",
        "-f",
        "jsonl",
        "-o",
        "/dev/null",
        *more,
    ]


def pipeline(folder: Path, megabytes: int) -> list[Row]:
    """The whole of `recovery analyze`, store included, on both corpora and on two processes."""
    rows = []
    for kind, target in (("mix", 80), ("repetitive", 150)):
        logs = folder / kind
        size = sum(p.stat().st_size for p in logs.iterdir()) / 1e6
        store = folder / f"store-{kind}"
        runs = []
        for _ in range(3):
            shutil.rmtree(store, ignore_errors=True)
            runs.append(measure(analyze(logs, store, "-j", "1")))
        run = sorted(runs, key=lambda r: r.cpu_s)[1]
        rows.append(
            Row(
                f"whole pipeline, {kind}, {size:.0f} MB",
                f"{size / run.cpu_s:.0f} MB per CPU s, {run.peak_mb:.0f} MB peak",
                f">= {target} MB per CPU s, < 400 MB",
                f"recovery analyze {kind} -j 1",
            )
        )
    return rows


def huge(folder: Path) -> Row:
    """20 GB through a FIFO, mined and stored: memory must not know how long the input is."""
    one = next(iter(sorted((folder / "mix").iterdir())))
    times = 20_000_000_000 // one.stat().st_size
    fifo = folder / "fifo"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    writer = subprocess.Popen(
        ["sh", "-c", f'i=0; while [ $i -lt {times} ]; do cat "{one}"; i=$((i+1)); done > "{fifo}"']
    )
    store = folder / "store-huge"
    shutil.rmtree(store, ignore_errors=True)
    run = measure(analyze(fifo, store))
    writer.wait()
    return Row(
        "whole pipeline, 20 GB through a FIFO",
        f"{20_000 / run.cpu_s:.0f} MB per CPU s, {run.peak_mb:.0f} MB peak",
        "< 400 MB",
        "recovery analyze FIFO",
    )


def table(rows: list[Row]) -> str:
    head = f"Measured on {os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}.\n\n"
    lines = ["| what | measured | wanted | with |", "|---|---|---|---|"]
    lines += [f"| {r.what} | {r.figure} | {r.target} | `{r.command}` |" for r in rows]
    return head + "\n".join(lines) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--huge", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--folder", type=Path, help="keep the corpora here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        for kind in ("mix", "repetitive"):
            if not (folder / kind).exists():
                generate(kind, folder / kind, args.mb)
        # First what measures memory: Linux counts a parent's peak as its child's.
        rows = pipeline(folder, args.mb)
        if args.huge:
            rows.append(huge(folder))
        rows += peers.rows(folder, measure)
        rows += sharding.rows(folder, measure, analyze)
        rows += growth.rows(folder)
        rows += big_store.rows(folder)
    text = table(rows)
    print(text)
    if args.write_docs:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page[: page.index(MARK) + len(MARK)] + "\n\n" + text, encoding="utf-8")


if __name__ == "__main__":
    main()
