"""A reconciler that kills itself (SIGKILL) at the n-th checkpoint. Run as a program by test_crashes."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from play import LIMITS, Play  # noqa: E402


class Client:
    """The part of a lab that a reconciler needs."""

    def __init__(self, conf: str) -> None:
        self.env = {"SLURM_CONF": conf}


def main() -> int:
    folder, conf, advice, die_at = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    seen = 0

    def checkpoint(name: str) -> None:
        nonlocal seen
        seen += 1
        if seen == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    play = Play(lab=Client(conf), folder=folder, limits=LIMITS, checkpoint=checkpoint)  # type: ignore[arg-type]
    verdict, _ = play.reconcile(pickle.loads(advice.read_bytes()), timeout_s=30)
    print(verdict.disposition, verdict.reason)
    return 0


if __name__ == "__main__":
    sys.exit(main())
