"""Rounds until told to stop: how often to look, and what the looking costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from attribution.model import Advice, Disposition
from attribution.reconcile.tick import Reconciler, Round
from attribution.schedulers.base import World

#: Nobody looks at a whole cluster more often than this while nothing happens.
POLL_FLOOR_S = 2.0
#: Between the steps of a restart.
STEP_FLOOR_S = 0.2
#: A look may take at most this share of the time, so that a large cluster is asked less often.
MAX_SHARE = 0.2


@dataclass(slots=True, kw_only=True)
class Loop:
    """Runs a reconciler. `load` gives the Advice, knowing the world; `report` gets every round."""

    reconciler: Reconciler
    load: Callable[[World], Sequence[Advice]]
    report: Callable[[Round], None] = lambda seen: None
    interval_s: float = 10.0
    stop: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    rounds: int = 0
    look_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    def once(self) -> Round:
        """One round."""
        began = self.clock()
        world = self.reconciler.observer.observe()
        self.look_s = self.clock() - began
        seen = self.reconciler.tick(self.load(world), world)
        self.rounds += 1
        for done in seen.steps:
            answer = str(done.reply.kind) if done.reply else "foreseen"
            name = f"{done.step.kind} {answer}"
            self.counts[name] = self.counts.get(name, 0) + 1
        self.report(seen)
        return seen

    def pause_s(self, seen: Round) -> float:
        """How long to wait after a round."""
        cost_s = self.look_s / MAX_SHARE
        return max(STEP_FLOOR_S if seen.busy else max(POLL_FLOOR_S, self.interval_s), cost_s)

    def run(self, *, until_settled: bool = False) -> Round:
        """Rounds until `stop`, or until every Advice has a final verdict."""
        while True:
            seen = self.once()
            open_ = any(v.disposition is Disposition.PENDING for v in seen.verdicts) or bool(seen.steps)
            if self.stop() or (until_settled and not open_):
                return seen
            self.sleep(self.pause_s(seen))


def metrics(loop: Loop, calls: Mapping[str, int], seen: Round) -> str:
    """Prometheus text: calls to Slurm, steps and answers, verdicts, duration and age of the last look."""
    lines = ["# TYPE recovery_scheduler_calls_total counter"]
    lines += [f'recovery_scheduler_calls_total{{program="{name}"}} {calls[name]}' for name in sorted(calls)]
    lines.append("# TYPE recovery_steps_total counter")
    for name in sorted(loop.counts):
        step, _, answer = name.partition(" ")
        lines.append(f'recovery_steps_total{{step="{step}",answer="{answer}"}} {loop.counts[name]}')
    lines.append("# TYPE recovery_advice gauge")
    found: dict[tuple[str, str], int] = {}
    for verdict in seen.verdicts:
        key = (str(verdict.disposition), str(verdict.reason))
        found[key] = found.get(key, 0) + 1
    lines += [f'recovery_advice{{disposition="{d}",reason="{r}"}} {found[(d, r)]}' for d, r in sorted(found)]
    lines.append("# TYPE recovery_round_seconds gauge")
    lines.append(f"recovery_round_seconds {loop.look_s:.3f}")
    lines.append("# TYPE recovery_view_whole gauge")
    lines.append(f"recovery_view_whole {int(seen.world.whole)}")
    lines.append("# TYPE recovery_rounds_total counter")
    lines.append(f"recovery_rounds_total {loop.rounds}")
    return "\n".join(lines) + "\n"
