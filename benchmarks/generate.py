"""A corpus like training clusters' logs, from a seed: equal arguments give equal bytes.

    python -m benchmarks.generate mix DIR --mb 1000
    python -m benchmarks.generate repetitive DIR --mb 1000

``mix`` holds NCCL INFO lines, Megatron and Hugging Face progress, progress bars with carriage returns, logging lines,
tracebacks and Slurm's words. ``repetitive`` is like accepted MLPerf results: MLLOG lines and environment dumps, healthy.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from pathlib import Path

JOB_BYTES = 8_000_000


def _nccl(r: random.Random, n: int) -> Iterator[str]:
    for _ in range(n):
        host, pid, dev = r.randrange(1, 64), r.randrange(10_000, 99_999), r.randrange(8)
        head = f"gpu-{host:03d}:{pid}:{pid + 400} [{dev}] NCCL INFO "
        kind = r.choice((0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 4, 5)) if r.random() < 0.97 else 3
        if kind == 0:
            yield f"{head}Channel {r.randrange(24):02d}/0 : {r.randrange(512)}[{dev}] -> {r.randrange(512)}[{dev}] [send] via NET/IB/{r.randrange(8)}/GDRDMA"
        elif kind == 1:
            yield f"{head}Trees [0] {r.randrange(512)}/-1/-1->{r.randrange(512)}->{r.randrange(512)} [1] -1/-1/-1->{r.randrange(512)}->{r.randrange(512)}"
        elif kind == 2:
            yield f"{head}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.{r.randrange(256)}.{r.randrange(256)}<0>"
        elif kind == 3:
            yield f"{head}comm 0x{r.randrange(2**44):x} rank {r.randrange(512)} nranks 512 cudaDev {dev} nvmlDev {dev} busId {r.randrange(2**20):x} commId 0x{r.randrange(2**60):x} - Init COMPLETE"
        elif kind == 4:
            yield f"{head}Connected all rings"
        else:
            yield f"{head}threadThresholds 8/8/64 | 4096/8/64 | 512 | 512"


def _megatron(r: random.Random, step: int, total: int) -> str:
    return (
        f" [2026-06-{1 + step // 8000 % 28:02d} {step // 600 % 24:02d}:{step // 10 % 60:02d}:{step * 6 % 60:02d}] iteration {step:8d}/{total:8d} | consumed samples: {step * 1024:12d} | "
        f"elapsed time per iteration (ms): {5800 + r.random() * 90:.1f} | throughput per GPU (TFLOP/s/GPU): {410 + r.random() * 9:.1f} | learning rate: {3e-4 * (1 - step / total):.6E} | "
        f"global batch size:  1024 | lm loss: {2 + 6 / (1 + step / 200):.6E} | loss scale: 1.0 | grad norm: {r.random():.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def _bar(r: random.Random, n: int) -> str:
    return "\r".join(
        f"Map:  {100 * i // n}%|{'#' * (i * 10 // n):<10}| {i * 100}/{n * 100} [00:{i % 60:02d}<00:{(n - i) % 60:02d}, {r.random() * 900:.2f} examples/s]"
        for i in range(1, n + 1)
    )


_WORDS = [
    "batch",
    "worker",
    "shard",
    "cache",
    "prefetch",
    "loader",
    "tokenizer",
    "scheduler",
    "optimizer",
    "checkpoint",
    "gradient",
    "bucket",
    "stream",
    "barrier",
]


def _logging(r: random.Random) -> str:
    a, b = r.choice(_WORDS), r.choice(_WORDS)
    return f"2026-06-14 {r.randrange(24):02d}:{r.randrange(60):02d}:{r.randrange(60):02d},{r.randrange(1000):03d} - train.{a} - INFO - {a} {r.randrange(10_000)} of {b} took {r.random():.4f} s on rank {r.randrange(512)}"


def _traceback(r: random.Random) -> Iterator[str]:
    rank = r.randrange(512)
    p = f"[rank{rank}]: "
    yield p + "Traceback (most recent call last):"
    for i in range(6):
        yield p + f'  File "/opt/train/module_{i}.py", line {r.randrange(900)}, in step_{i}'
        yield p + f"    out = self.layer_{i}(x)"
    yield (
        p
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.11 GiB of which 1.12 GiB is free."
    )
    yield "srun: error: gpu-001: task 3: Exited with exit code 1"
    yield "slurmstepd: error: *** STEP 4127311.0 ON gpu-001 CANCELLED AT 2026-06-14T03:21:57 ***"


def _mix(r: random.Random) -> Iterator[str]:
    yield from _nccl(r, 4000)
    step, total = 1, 500_000
    size = 0
    while size < JOB_BYTES - 1_200_000:
        for line in _round(r, step, total):
            size += len(line) + 1
            yield line
        step += 1
    if r.random() < 0.5:
        yield from _traceback(r)


def _round(r: random.Random, step: int, total: int) -> Iterator[str]:
    yield _megatron(r, step, total)
    for _ in range(r.randrange(4, 10)):
        yield _logging(r)
    if step % 50 == 0:
        yield f"saving checkpoint at iteration {step:7d} to /scratch/ckpt"
        yield f"  successfully saved checkpoint from iteration {step:7d} to /scratch/ckpt"
        yield _bar(r, 40)
    if step % 7 == 0:
        yield str(
            {
                "loss": round(r.random(), 4),
                "grad_norm": round(r.random(), 3),
                "learning_rate": 1e-5,
                "epoch": step / 100,
            }
        )
    if step % 90 == 0:
        yield from _nccl(r, 60)


def _repetitive(r: random.Random) -> Iterator[str]:
    size = 0
    step = 0
    while size < JOB_BYTES:
        step += 1
        line = (
            f':::MLLOG {{"namespace": "", "time_ms": {1_700_000_000_000 + step * 37}, "event_type": "POINT_IN_TIME", "key": "tracked_stats", '
            f'"value": {{"throughput": {5000 + r.random() * 10:.4f}, "train_loss": {r.random():.6f}}}, "metadata": {{"file": "/workspace/train.py", "lineno": 212, "step": {step}}}}}'
        )
        size += len(line) + 1
        yield line
        for k in range(6):
            line = f"{k}: [1,{k}]<stdout>:worker {k} ok, dataset shard {step % 128} of 128 read in {r.random():.3f} s"
            size += len(line) + 1
            yield line


KINDS: dict[str, Callable[[random.Random], Iterator[str]]] = {"mix": _mix, "repetitive": _repetitive}


def generate(kind: str, folder: Path, megabytes: int, seed: int = 1) -> int:
    """Write job logs of `kind` until `megabytes` (10^6 bytes) are reached; gives the bytes written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = number = 0
    while written < megabytes * 1_000_000:
        r = random.Random(f"{kind} {seed} {number}")
        data = ("\n".join(KINDS[kind](r)) + "\n").encode()
        (folder / f"slurm-{4_000_000 + number}.out").write_bytes(data)
        written += len(data)
        number += 1
    return written


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mb", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"{generate(args.kind, args.folder, args.mb, args.seed):,} bytes")


if __name__ == "__main__":
    main()
