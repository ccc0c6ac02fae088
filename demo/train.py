"""A small real training run over several processes, in plain Python: data-parallel gradient descent with checkpoints.

Every rank holds a part of the data of a linear regression, gradients are averaged over TCP, rank 0 writes checkpoints. A
rank whose GPU has a fault file dies as a PyTorch rank does on a GPU with an uncorrectable memory error; its peers then
lose their connections and complain louder than it did. Started by srun, one process per task.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import time
import traceback
from pathlib import Path

WEIGHTS = [0.5, -1.25, 2.0, 3.5]
STEPS, SAVE_EVERY, STEP_S = 60, 10, 0.1
RANK, WORLD = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
NODE, GPU = os.environ["SLURMD_NODENAME"], os.environ["SLURM_LOCALID"]
FOLDER = Path(os.environ["DEMO_FOLDER"])


class DeviceError(RuntimeError):
    """The GPU of this rank failed."""


# PyTorch raises a RuntimeError; the name in the traceback is part of what is diagnosed
DeviceError.__name__ = DeviceError.__qualname__ = "RuntimeError"
DeviceError.__module__ = "builtins"


def say(text: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)


class Ring:
    """Gradients are sent to rank 0, averaged there, and sent back."""

    def __init__(self) -> None:
        port = FOLDER / f"port-{os.environ['SLURM_JOB_ID']}-{os.environ.get('SLURM_RESTART_COUNT', '0')}"
        self.peers: list[socket.socket] = []
        if RANK == 0:
            server = socket.create_server(("127.0.0.1", 0))
            part = port.with_suffix(".part")
            part.write_text(str(server.getsockname()[1]))
            part.rename(port)
            self.peers = [server.accept()[0] for _ in range(WORLD - 1)]
            return
        for _ in range(600):
            if port.exists():
                break
            time.sleep(0.05)
        self.peers = [socket.create_connection(("127.0.0.1", int(port.read_text())), timeout=60)]

    def average(self, values: list[float]) -> list[float]:
        form = f"{len(values)}d"
        if RANK:
            self.peers[0].sendall(struct.pack(form, *values))
            return list(struct.unpack(form, self._take(self.peers[0], struct.calcsize(form))))
        rows = [values, *(struct.unpack(form, self._take(p, struct.calcsize(form))) for p in self.peers)]
        mean = [sum(column) / WORLD for column in zip(*rows, strict=True)]
        for peer in self.peers:
            peer.sendall(struct.pack(form, *mean))
        return mean

    @staticmethod
    def _take(peer: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = peer.recv(size - len(data))
            if not piece:
                raise RuntimeError(f"Connection closed by peer [127.0.0.1]:{peer.getpeername()[1]}")
            data += piece
        return data


def batch(step: int) -> list[tuple[list[float], float]]:
    rng = random.Random(step * 1000 + RANK)
    rows = []
    for _ in range(64):
        x = [rng.uniform(-1, 1) for _ in WEIGHTS]
        rows.append((x, sum(w * v for w, v in zip(WEIGHTS, x, strict=True)) + rng.gauss(0, 0.01)))
    return rows


def gradient(weights: list[float], rows: list[tuple[list[float], float]]) -> list[float]:
    """Mean gradient, with the mean squared error as last element."""
    total = [0.0] * (len(weights) + 1)
    for x, y in rows:
        error = sum(w * v for w, v in zip(weights, x, strict=True)) - y
        for i, v in enumerate(x):
            total[i] += 2 * error * v / len(rows)
        total[-1] += error * error / len(rows)
    return total


def device_check(step: int) -> None:
    """What the driver of a broken GPU does at the next kernel launch."""
    fault = FOLDER / f"fault-{NODE}-{GPU}"
    if fault.exists() and step >= int(fault.read_text()):
        stamp = FOLDER / "failed-at"
        if not stamp.exists():
            stamp.write_text(repr(time.time()))
        raise DeviceError("CUDA error: uncorrectable ECC error encountered")


def checkpoint_path() -> Path:
    return FOLDER / "checkpoint.json"


def main() -> None:
    weights, first = [0.0] * len(WEIGHTS), 0
    say(f"rank {RANK} of {WORLD} on {NODE} cuda:{GPU} starts")
    if checkpoint_path().exists():
        state = json.loads(checkpoint_path().read_text())
        weights, first = state["weights"], state["step"]
        if RANK == 0:
            say(f"  successfully loaded checkpoint from {checkpoint_path()} at iteration {first}")
    ring = Ring()
    for step in range(first + 1, STEPS + 1):
        began = time.monotonic()
        device_check(step)
        mean = ring.average(gradient(weights, batch(step)))
        weights = [w - 0.2 * g for w, g in zip(weights, mean, strict=False)]
        time.sleep(max(0.0, STEP_S - (time.monotonic() - began)))
        if RANK == 0:
            took_ms = (time.monotonic() - began) * 1000
            say(
                f" iteration {step:8d}/{STEPS:8d} | consumed samples: {step * 64 * WORLD:12d} | "
                f"elapsed time per iteration (ms): {took_ms:.1f} | lm loss: {mean[-1]:.6E} |"
            )
            if step % SAVE_EVERY == 0:
                part = checkpoint_path().with_suffix(".part")
                part.write_text(json.dumps({"step": step, "weights": weights}))
                part.rename(checkpoint_path())
                say(f"  successfully saved checkpoint from iteration {step:7d} to {checkpoint_path()}")
    if RANK == 0:
        say(f"training finished after {STEPS} steps, weights {[round(w, 2) for w in weights]}")


if __name__ == "__main__":
    try:
        main()
    except DeviceError:
        traceback.print_exc()
        sys.exit(1)
    except (RuntimeError, OSError):
        # a peer whose collective is broken complains and then waits for its watchdog; srun ends it before that
        traceback.print_exc()
        time.sleep(30)
        sys.exit(1)
