"""Backtest and lemon ledger over a generated history.

    python -m benchmarks.policy                  10^5 attempts
    python -m benchmarks.policy --attempts 20000 --seed 7

The history is made up: jobs of 2 to 64 nodes out of 1,024, chains of restarts, a few classes, four lemon nodes. It shows
how long the work takes and that planted lemons are found; it says nothing about any real cluster.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Iterator
from typing import Any

import polars as pl

from attribution import resources
from attribution.policy.document import load_policy, parse_policy
from attribution.policy.lemons import ledger, lemons
from attribution.policy.past import records
from attribution.policy.replay import replay
from attribution.signatures import load

NODES = 1024
LEMONS = ("node-0003", "node-0301", "node-0555", "node-0999")
_CLASSES = (
    ("comm.peer_lost", "unknown", 0.30), ("gpu_hw.off_bus", "infrastructure", 0.16),
    ("network_fabric.ib_transport_error", "infrastructure", 0.12), ("user_code.exception", "workload", 0.16),
    ("gpu_memory.cuda_oom", "workload", 0.10), ("storage.io_error", "infrastructure", 0.06),
    ("scheduler.time_limit", "scheduler", 0.10),
)  # fmt: skip
_DAY = 86_400.0
#: A policy to compare with: it gives up at the first failure that made no step.
STRICT = b"""
policy: strict
rows:
  - {id: well, when: {outcome: [completed, running]}, action: none}
  - {id: by_a_person, when: {class: [scheduler.cancelled, scheduler.interrupted, scheduler.preempted]}, action: none}
  - {id: once, when: {same_root_without_progress_at_least: 1}, action: hold}
  - {id: rest, action: taxonomy}
"""


def _job(rng: random.Random, number: int, span_s: float) -> Iterator[dict[str, Any]]:
    width = rng.choice((2, 4, 8, 16, 32, 64))
    start = rng.random() * span_s
    first = rng.randrange(NODES)
    nodes = [f"node-{(first + i) % NODES:04d}" for i in range(width)]
    step = 0
    sticky = rng.choices(_CLASSES, [c[2] for c in _CLASSES])[0] if rng.random() < 0.3 else None
    for restart in range(40):
        name, domain, _ = sticky or rng.choices(_CLASSES, [c[2] for c in _CLASSES])[0]
        bad = next((n for n in nodes if n in LEMONS), None)
        if bad is not None and rng.random() < 0.5:
            name, domain = "gpu_hw.off_bus", "infrastructure"
        else:
            bad = rng.choice(nodes)
        done = rng.random() < (0.1 if sticky is not None else 0.35)
        hours = rng.expovariate(1 / 6.0) + 0.05
        stuck = sticky is not None or domain == "workload"
        sticky = (name, domain, 0.0) if domain == "workload" and not done and rng.random() < 0.9 else sticky
        made = 0 if stuck and rng.random() < 0.8 else int(hours * 100)
        row: dict[str, Any] = {
            "attempt_id": f"c/{number}@{int(start)}.{restart}", "cluster": "c", "job_id": str(number),
            "submit_time_s": int(start), "restart": restart, "name": f"job-{number}", "user": "u", "partition": "main",
            "nodes": list(nodes), "gpus": 8 * width, "n_ranks": 8 * width, "start_time_s": start,
            "end_time_s": start + hours * 3600, "dialect": "megatron", "first_step": step, "last_step": step + made,
            "total_steps": 10_000, "last_checkpoint_step": (step + made) // 50 * 50, "loaded_checkpoint_step": step,
            "outcome": "completed" if done else "failed", "class": "healthy.completed" if done else name,
            "domain": "none" if done else domain, "status": rng.choice(("established", "supported", "hypothesis")),
            "confidence": 0.9, "culprit_nodes": [bad] if name == "gpu_hw.off_bus" and not done else [],
            "fingerprint": None if done else f"{name}/{0 if stuck else rng.randrange(4)}", "entity": None, "signals": [],
            "action": None,
        }  # fmt: skip
        yield row
        if done:
            return
        step = max(step, int(row["last_checkpoint_step"]))
        start += hours * 3600 + rng.expovariate(1 / 1800.0)
        if rng.random() < 0.3:
            nodes = [*nodes[1:], f"node-{rng.randrange(NODES):04d}"]


def history(attempts: int, seed: int = 1, days: float = 120.0) -> pl.DataFrame:
    """A frame as `RECORDS_SQL` answers it, of this many attempts; equal seeds give equal frames."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    number = 0
    while len(rows) < attempts:
        number += 1
        rows.extend(_job(rng, number, days * _DAY))
    return pl.DataFrame(rows[:attempts], infer_schema_length=None)


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--attempts", type=int, default=100_000)
    ask.add_argument("--seed", type=int, default=1)
    options = ask.parse_args()
    taxonomy = load((resources.rules_dir(),)).taxonomy
    frame = history(options.attempts, options.seed)
    clock = [time.process_time()]
    found = records(frame)
    clock.append(time.process_time())
    got = replay(found, parse_policy(STRICT, "strict.yaml"), taxonomy=taxonomy, old=load_policy())
    clock.append(time.process_time())
    entries = ledger(found, now_s=max(r.attempt.end_time_s or 0.0 for r in found))
    clock.append(time.process_time())
    spent = [b - a for a, b in itertools.pairwise(clock)]
    print(f"{len(found):,} attempts read in {spent[0]:.1f} s CPU")
    print(f"{got.attempts:,} failures replayed under two policies in {spent[1]:.1f} s CPU, {got.changed:,} differ")
    for one in (got.new, got.old):
        if one is not None:
            print(f"  {one.policy}: wrong stops {one.wrong_stops}, wrong exclusions {one.wrong_exclusions}")
            print(
                f"    GPU-hours saved {one.saved_hours:,.0f}, forgone {one.forgone_hours:,.0f}, wasted {one.wasted_hours:,.0f}"
            )
    print(f"lemon ledger of {len(entries):,} nodes in {spent[2]:.1f} s CPU: {', '.join(sorted(lemons(entries)))}")
    print(f"whole: {sum(spent):.1f} s CPU")


if __name__ == "__main__":
    main()
