"""sacct exports: JSON of Slurm 22.05 and 24.11 and parsable text, one record per attempt.

Facts that shape this, measured on both versions: 22.05 prints scalars where 24.11 prints {set, infinite, number}, and a
word where 24.11 prints a list of states. With ``-D`` a requeued job has one record per attempt, without it only the
newest, and a requeue rewrites FAILED to REQUEUED. In 22.05's JSON every exit code other than a signal reads SUCCESS and
0, so it is taken as unknown there; text shows codes from 128 on less 128 (143 as 15). The derived exit code is not
reset by a requeue, and the reason of an ended job is its last reason for waiting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    """One attempt as accounting tells it. Times are seconds since the epoch, None where not yet known.

    Text without a zone is read as UTC. `exit_code_exact` is False where 128 may be missing. `restart` is what
    accounting says, or the record's number among those of the same job, None where there is only one. `cancelled_by` is
    a user name or number. `output` is the path of the job's output where accounting knows it.
    """

    job_id: str
    cluster: str | None = None
    name: str | None = None
    user: str | None = None
    partition: str | None = None
    state: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    exit_code_exact: bool = True
    derived_exit_code: int | None = None
    derived_signal: int | None = None
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
    output: str | None = None
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
        return _numbered([_from_json(j) for j in jobs if isinstance(j, dict) and "job_id" in j])
    return _numbered(_from_text(text, name))


def _numbered(records: Sequence[AccountingRecord]) -> tuple[AccountingRecord, ...]:
    """Attempts of one job one behind the other, oldest first, with their number where accounting gives none.

    Slurm reuses job ids: a record of another user or name begins another job.
    """
    jobs: dict[tuple[str | None, str], list[AccountingRecord]] = {}
    for record in records:
        jobs.setdefault((record.cluster, record.job_id), []).append(record)
    out: list[AccountingRecord] = []
    for own in jobs.values():
        own.sort(key=lambda x: (x.submit_s or 0.0, x.start_s or x.submit_s or 0.0))
        number = 0
        for i, record in enumerate(own):
            before = own[i - 1] if i else None
            number = number + 1 if before and (before.user, before.name) == (record.user, record.name) else 0
            alone = len(own) == 1 or record.restart is not None
            out.append(record if alone else replace(record, restart=number))
    return tuple(out)


def _number(value: Any) -> int | None:
    """22.05's scalar or 24.11's {set, infinite, number}; unset and infinite are None."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    # A counter beyond 64 bits is nobody's, and would not fit a table.
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _word(value: Any) -> str | None:
    """A string, or the first of a list of strings; empty is None."""
    if isinstance(value, list):
        value = value[0] if value else None
    return str(value) if value not in (None, "") else None


def _time(value: Any) -> float | None:
    seconds = _number(value)
    return float(seconds) if seconds else None


def _exit(value: Any, state: str | None) -> tuple[int | None, int | None]:
    """(return code, signal) of an exit_code object."""
    if not isinstance(value, dict):
        return (None, None)
    signal = value.get("signal")
    number = _number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, dict) else None
    code = _number(value.get("return_code"))
    if value.get("status") == "SUCCESS" and state not in ("COMPLETED", None):
        # 22.05 prints this for every exit code.
        code = None
    return (code, number or None)


def _hosts(value: Any) -> tuple[str, ...]:
    try:
        return expand(str(value)) if value else ()
    except SchedulerError:
        return ()


def _gpus(tres: Any) -> int | None:
    rows = _list(_object(tres).get("allocated")) or _list(_object(tres).get("requested"))
    counts = [
        _number(r.get("count")) or 0
        for r in rows
        if isinstance(r, dict) and r.get("type") == "gres" and r.get("name") == "gpu"
    ]
    return max(counts) if counts else None


def _step(row: dict[str, Any]) -> StepRecord:
    state = _state(row.get("state"))
    code, signal = _exit(row.get("exit_code"), state)
    step, nodes = _object(row.get("step")), row.get("nodes")
    return StepRecord(
        id=str(step.get("id") or step.get("name") or ""),
        state=state,
        exit_code=code,
        signal=signal,
        nodes=_hosts(nodes.get("range") if isinstance(nodes, dict) else nodes),
    )


def _from_json(row: dict[str, Any]) -> AccountingRecord:
    times, state, array = (_object(row.get(k)) for k in ("time", "state", "array"))
    word = _state(state.get("current", row.get("state") if not state else None))
    code, signal = _exit(row.get("exit_code"), word)
    derived = _exit(row.get("derived_exit_code"), word)
    comment = row.get("comment")
    limit = _number(times.get("limit"))
    array_id, task_id = _number(array.get("job_id")), _number(array.get("task_id"))
    return AccountingRecord(
        job_id=f"{array_id}_{task_id}" if array_id and task_id is not None else str(row["job_id"]),
        cluster=_word(row.get("cluster")),
        name=_word(row.get("name")),
        user=_word(_object(row.get("association")).get("user")) or _word(row.get("user")),
        partition=_word(row.get("partition")),
        state=word,
        reason=_reason(state.get("reason")),
        exit_code=code,
        exit_signal=signal,
        derived_exit_code=derived[0],
        derived_signal=derived[1],
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
        output=_word(row.get("stdout_expanded")),
        steps=tuple(_step(s) for s in _list(row.get("steps")) if isinstance(s, dict)),
    )


def _reason(value: Any) -> str | None:
    word = _word(value)
    return None if word == "None" else word


def _state(value: Any) -> str | None:
    """The base state; of 24.11's list [PENDING, REQUEUED] the flag tells what became of the attempt."""
    if isinstance(value, list):
        words = [str(v) for v in value]
        return "REQUEUED" if "REQUEUED" in words else (words[0] if words else None)
    return _word(value)


_JOB_ID = re.compile(r"^\d{1,12}(?:_(?:\d{1,9}|\[[\d,%:-]{1,200}\])|\+\d{1,5})?(?:\.\w{1,40})?$", re.ASCII)
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


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 12 else None


def _minutes(text: str | None) -> int | None:
    minutes = _whole(text)
    return minutes * 60 if minutes is not None else None


def _moment(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text or "").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _from_text(text: str, name: str) -> list[AccountingRecord]:
    lines = text.splitlines()
    header = [h.strip().lower() for h in lines[0].removesuffix("|").split("|")] if lines else []
    if len(header) < 2 or not {"jobid", "jobidraw"}.intersection(header):
        raise SourceError(
            "neither JSON nor parsable text with a header",
            where=name,
            mend="export it with sacct --json, or sacct -P -D -o JobID,State,ExitCode,Submit,Start,End,NodeList",
        )
    # With --parsable, unlike --parsable2, every line ends with a bar.
    barred = lines[0].endswith("|")
    out: list[AccountingRecord] = []
    for line in lines[1:]:
        row = _row(header, line.removesuffix("|") if barred else line)
        job = row.get("jobid") or row.get("jobidraw") or ""
        # Comments may hold line ends; what follows one is no row.
        if not _JOB_ID.match(job):
            continue
        if "." not in job:
            out.append(_job_text(row, job))
        elif out and job.split(".", 1)[0] == out[-1].job_id:
            code, signal = _exit_text(row.get("exitcode"))
            step = StepRecord(
                id=job,
                state=(row.get("state") or "").split(" ", 1)[0] or None,
                exit_code=code,
                signal=signal,
                nodes=_hosts(row.get("nodelist")),
            )
            out[-1] = replace(out[-1], steps=(*out[-1].steps, step))
    return out


def _row(header: Sequence[str], line: str) -> dict[str, str]:
    """Cells by column. Bars within a comment or name make too many cells: the surplus goes back there."""
    cells = line.split("|")
    surplus = len(cells) - len(header)
    if surplus > 0:
        wide = next((header.index(c) for c in ("comment", "jobname", "admincomment") if c in header), len(header) - 1)
        cells[wide : wide + surplus + 1] = ["|".join(cells[wide : wide + surplus + 1])]
    return dict(zip(header, (c.strip() for c in cells), strict=False))


def _exit_text(text: str | None) -> tuple[int | None, int | None]:
    code, _, signal = (text or "").partition(":")
    return (_whole(code), _whole(signal) or None)


def _job_text(row: dict[str, str], job: str) -> AccountingRecord:
    code, signal = _exit_text(row.get("exitcode"))
    derived = _exit_text(row.get("derivedexitcode"))
    state = row.get("state") or ""
    by = _CANCELLED_BY.match(state)
    gpus = re.search(r"gres/gpu=(\d{1,6})", row.get("alloctres", "") or row.get("reqtres", ""))
    return AccountingRecord(
        job_id=job,
        cluster=row.get("cluster") or None,
        name=row.get("jobname") or None,
        user=row.get("user") or None,
        partition=row.get("partition") or None,
        state=state.split(" ", 1)[0] or None,
        reason=_reason(row.get("reason")),
        exit_code=code,
        exit_signal=signal,
        exit_code_exact=code == 0,
        derived_exit_code=derived[0],
        derived_signal=derived[1],
        nodes=_hosts(row.get("nodelist")),
        failed_node=row.get("failednode") or None,
        submit_s=_moment(row.get("submit")),
        start_s=_moment(row.get("start")),
        end_s=_moment(row.get("end")),
        elapsed_s=_whole(row.get("elapsedraw")) or _clock(row.get("elapsed")),
        time_limit_s=_minutes(row.get("timelimitraw")) or _clock(row.get("timelimit")),
        gpus=int(gpus.group(1)) if gpus else None,
        comment=row.get("comment") or None,
        cancelled_by=by.group(1) if by else None,
        restart=_whole(row.get("restarts")),
    )
