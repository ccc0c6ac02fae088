"""``python -m tests.sim --runs 100000``: seeded runs, spread over processes; the first broken seed is told and replayed."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.sim.simulation import Wrong, run


def block(first: int, count: int) -> tuple[Counter[str], list[str]]:
    """Runs of consecutive seeds: how their Advice ended, and what went wrong."""
    ends: Counter[str] = Counter()
    wrongs: list[str] = []
    for seed in range(first, first + count):
        try:
            done = run(seed)
        except Wrong as error:
            wrongs.append(str(error))
        else:
            ends.update(str(done.final[advice.id]) for advice in done.advice)
    return ends, wrongs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    size, began = 500, time.monotonic()
    starts = range(options.seed, options.seed + options.runs, size)
    sizes = [min(size, options.seed + options.runs - start) for start in starts]
    ends: Counter[str] = Counter()
    wrongs: list[str] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        results = pool.map(block, starts, sizes) if options.jobs > 1 else map(block, starts, sizes)
        for some, bad in results:
            ends.update(some)
            wrongs += bad
    print(f"{options.runs} runs, {sum(ends.values())} Advice, {time.monotonic() - began:.1f} s, {len(wrongs)} wrong")
    for reason, count in ends.most_common():
        print(f"{count:8d} {reason}")
    for wrong in wrongs:
        print(wrong.partition("\n")[0], file=sys.stderr)
    if wrongs:
        print(wrongs[0], file=sys.stderr)
    return 1 if wrongs else 0


if __name__ == "__main__":
    sys.exit(main())
