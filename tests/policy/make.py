"""Small makers for tests of policy: stored attempts of one job as a frame, as a store would answer."""

from __future__ import annotations

from typing import Any

import polars as pl

SCHEMA: dict[str, Any] = {
    "attempt_id": pl.String, "cluster": pl.String, "job_id": pl.String, "submit_time_s": pl.Int64, "restart": pl.Int64,
    "name": pl.String, "user": pl.String, "partition": pl.String, "nodes": pl.List(pl.String), "gpus": pl.Int64,
    "n_ranks": pl.Int64, "start_time_s": pl.Float64, "end_time_s": pl.Float64, "dialect": pl.String,
    "first_step": pl.Int64, "last_step": pl.Int64, "total_steps": pl.Int64, "last_checkpoint_step": pl.Int64,
    "loaded_checkpoint_step": pl.Int64, "outcome": pl.String, "class": pl.String, "domain": pl.String,
    "status": pl.String, "confidence": pl.Float64, "culprit_nodes": pl.List(pl.String), "fingerprint": pl.String,
    "entity": pl.String, "signals": pl.List(pl.String), "action": pl.String,
}  # fmt: skip


def row(restart: int, job: str = "4242", **more: Any) -> dict[str, Any]:
    """One attempt of an hour on two nodes with eight GPUs each, failed by a lost peer at step 100."""
    base: dict[str, Any] = dict.fromkeys(SCHEMA)
    base.update(
        attempt_id=f"{job}@1000.{restart}", job_id=job, submit_time_s=1000, restart=restart, partition="main",
        nodes=["gpu-001", "gpu-002"], gpus=16, start_time_s=1000.0 + 4000.0 * restart,
        end_time_s=4600.0 + 4000.0 * restart, dialect="megatron", first_step=0, last_step=100, total_steps=1000,
        outcome="failed", domain="unknown", status="supported", confidence=0.8, culprit_nodes=[], fingerprint="f1",
        signals=[],
    )  # fmt: skip
    base["class"] = "comm.peer_lost"
    return base | more


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows as the frame that a store answers."""
    return pl.DataFrame(list(rows), schema=SCHEMA)
