"""sacct exports: JSON of Slurm 22.05 and 24.11 and parsable text, one record per attempt.

Facts that shape this (measured on real Slurm): 22.05 prints scalars where 24.11 prints {set, infinite, number}; states are
a string there and a list here; with ``-D`` a requeued job has one record per attempt, without it only the newest; in
22.05's JSON the job's exit code may read SUCCESS where the steps failed, so the worst step counts too.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from attribution.hostlist import expand
from attribution.model import SchedulerError, SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One job step."""

    id: str
    state: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingRecord:
    """One attempt as accounting tells it. Times are seconds since the epoch, None where not yet known."""

    job_id: str
    cluster: str | None = None
    name: str | None = None
    user: str | None = None
    partition: str | None = None
    state: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    failed_node: str | None = None
    submit_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    elapsed_s: int | None = None
    time_limit_s: int | None = None
    gpus: int | None = None
    comment: str | None = None
    cancelled_by: str | None = None
    restart: int | None = None
    steps: tuple[StepRecord, ...] = ()


def parse_accounting(data: bytes, *, name: str) -> tuple[AccountingRecord, ...]:
    """Records of an export, in its order: attempts of one job follow each other oldest first.

    Raises:
        SourceError: neither JSON as sacct prints it nor parsable text with a header.
    """
    text = data.decode("utf-8", "replace").lstrip("\ufeff")
    if text.lstrip().startswith("{"):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"no JSON: {error}", where=name, mend="export it again with sacct --json") from error
        jobs = document.get("jobs") if isinstance(document, dict) else None
        if not isinstance(jobs, list):
            raise SourceError("no list of jobs in it", where=name, mend="export it with sacct --json")
        return tuple(_from_json(j) for j in jobs if isinstance(j, dict) and "job_id" in j)
    return _from_text(text, name)


def _number(value: Any) -> int | None:
    """22.05's scalar or 24.11's {set, infinite, number}; unset and infinite are None."""
    if isinstance(value, dict):
        return int(value["number"]) if value.get("set") and not value.get("infinite") else None
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _word(value: Any) -> str | None:
    """A string, or the first of a list of strings; empty is None."""
    if isinstance(value, list):
        value = value[0] if value else None
    return str(value) if value not in (None, "") else None


def _time(value: Any) -> float | None:
    seconds = _number(value)
    return float(seconds) if seconds else None


def _exit(value: Any) -> tuple[int | None, int | None]:
    """(return code, signal) of an exit_code object."""
    if not isinstance(value, dict):
        return (None, None)
    signal = value.get("signal")
    number = None
    if isinstance(signal, dict):
        number = _number(signal.get("id", signal.get("signal_id")))
    return (_number(value.get("return_code")), number or None)


def _hosts(value: Any) -> tuple[str, ...]:
    try:
        return expand(str(value)) if value else ()
    except SchedulerError:
        return ()


def _gpus(tres: Any) -> int | None:
    rows = (tres or {}).get("allocated") or (tres or {}).get("requested") or [] if isinstance(tres, dict) else []
    counts = [
        _number(r.get("count")) or 0
        for r in rows
        if isinstance(r, dict) and r.get("type") == "gres" and r.get("name") == "gpu"
    ]
    return max(counts) if counts else None


def _step(row: dict[str, Any]) -> StepRecord:
    code, signal = _exit(row.get("exit_code"))
    step = row.get("step") or {}
    nodes = row.get("nodes") or {}
    return StepRecord(
        id=str(step.get("id") or step.get("name") or ""),
        state=_word(row.get("state")),
        exit_code=code,
        signal=signal,
        nodes=_hosts(nodes.get("range") if isinstance(nodes, dict) else nodes),
    )


def _from_json(row: dict[str, Any]) -> AccountingRecord:
    times = row.get("time") or {}
    state = row.get("state") or {}
    array = row.get("array") or {}
    code, signal = _exit(row.get("exit_code"))
    comment = row.get("comment")
    limit = _number(times.get("limit"))
    array_id, task_id = _number(array.get("job_id")), _number(array.get("task_id"))
    return AccountingRecord(
        job_id=f"{array_id}_{task_id}" if array_id and task_id is not None else str(row["job_id"]),
        cluster=_word(row.get("cluster")),
        name=_word(row.get("name")),
        user=_word((row.get("association") or {}).get("user")) or _word(row.get("user")),
        partition=_word(row.get("partition")),
        state=_state(state.get("current")),
        reason=_word(state.get("reason")),
        exit_code=code,
        exit_signal=signal,
        nodes=_hosts(row.get("nodes")),
        failed_node=_word(row.get("failed_node")),
        submit_s=_time(times.get("submission")),
        start_s=_time(times.get("start")),
        end_s=_time(times.get("end")),
        elapsed_s=_number(times.get("elapsed")),
        time_limit_s=limit * 60 if limit is not None else None,
        gpus=_gpus(row.get("tres")),
        comment=_word(comment.get("job")) if isinstance(comment, dict) else _word(comment),
        cancelled_by=_word(row.get("kill_request_user")),
        restart=_number(row.get("restart_cnt")),
        steps=tuple(_step(s) for s in row.get("steps") or [] if isinstance(s, dict)),
    )


def _state(value: Any) -> str | None:
    """The base state; of 24.11's list [PENDING, REQUEUED] the flag tells what became of the attempt."""
    if isinstance(value, list):
        words = [str(v) for v in value]
        return "REQUEUED" if "REQUEUED" in words else (words[0] if words else None)
    return _word(value)


_CANCELLED_BY = re.compile(r"^CANCELLED by (\d+)$")
_TIMELIMIT = re.compile(r"^(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?$")


def _clock(text: str | None) -> int | None:
    """``1-02:03:04``, ``02:03:04`` or ``03:04`` in seconds."""
    m = _TIMELIMIT.match(text or "")
    if m is None:
        return None
    days, a, b, c = m.groups()
    hours, minutes, seconds = (int(a), int(b), int(c)) if c is not None else (0, int(a), int(b))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _moment(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text or "").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _from_text(text: str, name: str) -> tuple[AccountingRecord, ...]:
    lines = text.splitlines()
    if not lines or "|" not in lines[0] or "jobid" not in lines[0].lower():
        raise SourceError(
            "neither JSON nor parsable text", where=name, mend="export it with sacct --json, or sacct -P with header"
        )
    rows = csv.reader(io.StringIO(text), delimiter="|", quoting=csv.QUOTE_NONE)
    header = [h.strip().lower() for h in next(rows)]
    out: list[AccountingRecord] = []
    steps: list[StepRecord] = []
    for cells in rows:
        row = dict(zip(header, (c.strip() for c in cells), strict=False))
        job = row.get("jobid", "")
        if not job:
            continue
        if "." in job:
            code, signal = _exit_text(row.get("exitcode"))
            steps.append(
                StepRecord(
                    id=job, state=row.get("state"), exit_code=code, signal=signal, nodes=_hosts(row.get("nodelist"))
                )
            )
            if out:
                out[-1] = _with_steps(out[-1], steps)
            continue
        steps = []
        out.append(_job_text(row, job))
    return tuple(out)


def _with_steps(record: AccountingRecord, steps: list[StepRecord]) -> AccountingRecord:
    from dataclasses import replace

    return replace(record, steps=tuple(steps))


def _exit_text(text: str | None) -> tuple[int | None, int | None]:
    code, _, signal = (text or "").partition(":")
    return (int(code) if code.isdigit() else None, (int(signal) or None) if signal.isdigit() else None)


def _job_text(row: dict[str, str], job: str) -> AccountingRecord:
    code, signal = _exit_text(row.get("exitcode"))
    state = row.get("state") or ""
    by = _CANCELLED_BY.match(state)
    gpus = re.search(r"gres/gpu=(\d+)", row.get("alloctres", "") or row.get("reqtres", ""))
    restarts = row.get("restarts", "")
    return AccountingRecord(
        job_id=job,
        cluster=row.get("cluster") or None,
        name=row.get("jobname") or None,
        user=row.get("user") or None,
        partition=row.get("partition") or None,
        state=state.split(" ", 1)[0] or None,
        reason=row.get("reason") or None,
        exit_code=code,
        exit_signal=signal,
        nodes=_hosts(row.get("nodelist")),
        failed_node=row.get("failednode") or None,
        submit_s=_moment(row.get("submit")),
        start_s=_moment(row.get("start")),
        end_s=_moment(row.get("end")),
        elapsed_s=_clock(row.get("elapsed")),
        time_limit_s=_clock(row.get("timelimit")),
        gpus=int(gpus.group(1)) if gpus else None,
        comment=row.get("comment") or None,
        cancelled_by=by.group(1) if by else None,
        restart=int(restarts) if restarts.isdigit() else None,
    )
