"""Work spread over processes: whole jobs in batches of bytes, results in the order of the jobs.

The engine's callbacks hold the interpreter lock, so processes, not threads. A batch is big enough that its cost is its
bytes, and results come back in the order in which jobs were found: the number of processes changes nothing.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import BinaryIO

from attribution.analyze import Analyzer, Options
from attribution.result import Result
from attribution.sources.discover import Discovery, JobFiles, discover

#: A batch holds jobs of about this many bytes, and at most this many jobs.
BATCH_BYTES = 32 << 20
BATCH_JOBS = 256
#: Below this many bytes a second process costs more than it saves.
WORTH_BYTES = 8 << 20

_analyzer: Analyzer | None = None


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def batches(jobs: Sequence[JobFiles]) -> Iterator[tuple[JobFiles, ...]]:
    """Jobs in order, in batches bounded by bytes and by number."""
    batch: list[JobFiles] = []
    size = 0
    for job in jobs:
        if batch and (size + job.size_bytes > BATCH_BYTES or len(batch) >= BATCH_JOBS):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(job)
        size += job.size_bytes
    if batch:
        yield tuple(batch)


def spare_the_collector() -> None:
    """What is loaded stays; results are made by the thousand and have no cycles: collect seldom."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def _start(options: Options, found: Discovery) -> None:
    global _analyzer
    # One process per core: the libraries' own threads would only get in each other's way.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _analyzer = Analyzer(options)
    spare_the_collector()
    _analyzer.read_kernel_logs(found)


def _run(batch: tuple[JobFiles, ...]) -> list[tuple[Result, ...]]:
    if _analyzer is None:
        raise RuntimeError("the worker was not started")
    return [_analyzer.job(job) for job in batch]


def run_jobs(
    found: Discovery,
    options: Options,
    *,
    jobs: int = 0,
    on_bytes: Callable[[int], None] | None = None,
    analyzer: Analyzer | None = None,
) -> Iterator[tuple[JobFiles, tuple[Result, ...]]]:
    """Each job with its results, in the order found.

    Args:
        found: what `discover` gave.
        options: how to analyse.
        jobs: processes; 0 takes one per core, where the input is worth it.
        on_bytes: told how many bytes were read, in steps.
        analyzer: one that is loaded already, for work in this process.
    """
    total = sum(job.size_bytes for job in found.groups)
    n = jobs or (cores() if total >= WORTH_BYTES else 1)
    streaming = any(job.streaming for job in found.groups)
    if n <= 1 or streaming or len(found.groups) <= 1:
        analyzer = analyzer or Analyzer(options)
        spare_the_collector()
        analyzer.read_kernel_logs(found)
        for job in found.groups:
            yield job, analyzer.job(job, on_bytes)
        return
    yield from _in_processes(found, options, n, on_bytes)


def _in_processes(
    found: Discovery, options: Options, n: int, on_bytes: Callable[[int], None] | None
) -> Iterator[tuple[JobFiles, tuple[Result, ...]]]:
    import multiprocessing

    # Threads of polars or arrow in this process would not survive a plain fork.
    context = multiprocessing.get_context("forkserver")
    waiting: deque[tuple[tuple[JobFiles, ...], Future[list[tuple[Result, ...]]]]] = deque()
    todo = batches(found.groups)
    with ProcessPoolExecutor(n, mp_context=context, initializer=_start, initargs=(options, found)) as pool:
        while True:
            while len(waiting) < 2 * n and (batch := next(todo, None)) is not None:
                waiting.append((batch, pool.submit(_run, batch)))
            if not waiting:
                return
            batch, future = waiting.popleft()
            done = future.result()
            if on_bytes is not None:
                on_bytes(sum(job.size_bytes for job in batch))
            yield from zip(batch, done, strict=True)


def results(
    paths: Sequence[str], options: Options, *, jobs: int = 0, stdin: BinaryIO | None = None
) -> Iterator[Result]:
    """Results of every attempt below `paths`, in a fixed order, over processes where that pays."""
    found = discover(paths, patterns=options.patterns, each=options.each, kernel_logs=options.kernel_logs, stdin=stdin)
    for _, many in run_jobs(found, options, jobs=jobs):
        yield from many
