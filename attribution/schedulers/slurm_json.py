"""Slurm's JSON, the shapes of 22.05 and of 24.11, as `Job` and `Node`. Pure.

22.05: `job_state` is one string in which COMPLETING hides the state below; numbers are plain; the held state of a
requeued job stands in `state_description`. 24.11: states are lists, numbers are ``{"set":, "infinite":, "number":}``.
Which shape is there is read off each value, not off a version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from attribution.hostlist import NODE_NAME, expand
from attribution.model import SchedulerError
from attribution.policy.optin import OptIn
from attribution.schedulers.base import Hold, Job, Node

_FLAG_STATES = frozenset(
    {
        "COMPLETING",
        "CONFIGURING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESIZING",
        "RESV_DEL_HOLD",
        "REVOKED",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "STOPPED",
        "UPDATE_DB",
        "LAUNCH_FAILED",
        "RECONFIG_FAIL",
        "POWER_UP_NODE",
        "EXPEDITING",
    }
)
_NO_VALUE = 0xFFFFFFFE


def documents(raw: bytes, key: str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The list under `key` and the errors that the document itself reports.

    Raises SchedulerError when the bytes are not such a document: errors come with exit 0, so the body decides.
    """
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise SchedulerError(f"not JSON: {error}") from error
    rows = document.get(key) if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise SchedulerError(f"no {key!r} in the JSON")
    errors = document.get("errors") or []
    told = tuple(str(e.get("description") or e.get("error") or e)[:200] for e in errors if isinstance(e, dict))
    return [row for row in rows if isinstance(row, dict)], told


def number(value: Any, default: int = 0) -> int:
    """A number of either shape; `default` where unset, infinite or absent."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return default
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return default if value == _NO_VALUE else int(value)


def _states(value: Any) -> tuple[str, ...]:
    found = value if isinstance(value, list) else [value]
    return tuple(str(x).upper() for x in found if x)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _nodes(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):  # excluded_nodes of some releases
        return tuple(name for name in value if isinstance(name, str) and NODE_NAME.match(name))
    return expand(_text(value))


def hold_of(reason: str, description: str, priority: int, state: str) -> Hold:
    """Who holds a job, from the words that 22.05 and 24.11 use (`_` and blanks are the same).

    An administrator's hold on top of a requeue's hold turns the reason into JobHeldAdmin and leaves the description; an
    owner's hold on top of it cannot be seen.
    """
    words = f"{reason} {description}".replace("_", " ").lower()
    if "jobheldadmin" in words:
        return Hold.PERSON
    if "launch failed requeued held" in words:
        return Hold.SYSTEM
    if "requeued in held state" in words:
        return Hold.REQUEUE
    if "held" in words or "jobhold" in words or state == "SPECIAL_EXIT" or priority == 0:
        return Hold.PERSON
    return Hold.NONE


def exit_status(value: Any) -> int | None:
    """Exit code of a job: raw wait status in 22.05 (36608 is 143), an object in 24.11. Signals count as 128+n."""
    if isinstance(value, dict):
        code = number(value.get("return_code"), -1)
        if code >= 0:
            return code
        signal = value.get("signal")
        fired = number(signal.get("id", signal.get("signal_id")), 0) if isinstance(signal, dict) else 0
        return 128 + fired if fired else None
    raw = number(value, -1)
    if raw < 0:
        return None
    return 128 + (raw & 0x7F) if raw & 0x7F else raw >> 8


def job_of(row: dict[str, Any], opt_in: Callable[[str], OptIn] | None = None) -> Job:
    """One record of squeue or scontrol. Raises SchedulerError for a record without identity."""
    raw_id, submit = number(row.get("job_id"), -1), number(row.get("submit_time"), -1)
    states = _states(row.get("job_state"))
    if raw_id <= 0 or submit < 0 or not states:
        raise SchedulerError("a job record without id, submit time or state")
    base = next((s for s in states if s not in _FLAG_STATES), states[0])
    array_id = number(row.get("array_job_id"), 0) or None
    task_value = row.get("array_task_id")
    task = number(task_value, -1) if task_value is not None else -1
    pending = _text(row.get("array_task_string")) if array_id and task < 0 else ""
    het_leader = number(row.get("het_job_id"), 0) or None
    comment = _text(row.get("comment"))
    wish = opt_in(comment) if opt_in else None
    reason, priority = _text(row.get("state_reason")), number(row.get("priority"), 1)
    description = _text(row.get("state_description"))
    allocated = number(row.get("node_count"), 1) or 1
    return Job(
        id=f"{array_id}_{task}" if array_id and task >= 0 else str(raw_id),
        raw_id=raw_id,
        state=base,
        submit_time_s=submit,
        restart=number(row.get("restart_cnt"), 0),
        user=_text(row.get("user_name")),
        uid=number(row.get("user_id"), -1),
        cluster=_text(row.get("cluster")) or None,
        name=_text(row.get("name")),
        partition=_text(row.get("partition")),
        completing="COMPLETING" in states,
        reason=reason,
        hold=hold_of(reason, description, priority, "SPECIAL_EXIT" if "SPECIAL_EXIT" in states else base),
        priority=priority,
        requeue=row["requeue"] if isinstance(row.get("requeue"), bool) else None,
        batch=bool(row.get("batch_flag", True)),
        nodes=_nodes(row.get("nodes")),
        excluded=_nodes(row.get("excluded_nodes")),
        required=_nodes(row.get("required_nodes")),
        node_count=allocated,
        start_time_s=number(row.get("start_time"), 0),
        end_time_s=number(row.get("end_time"), 0),
        eligible_time_s=number(row.get("eligible_time"), 0),
        exit_code=exit_status(row.get("exit_code")),
        comment=comment,
        admin_comment=_text(row.get("admin_comment")),
        opted_in=wish.opted_in if wish else None,
        max_restarts=wish.max_restarts if wish and wish.problem is None else None,
        array_id=array_id,
        array_task=task if task >= 0 else None,
        array_pending=pending,
        het_leader=het_leader,
        het_offset=number(row.get("het_job_offset"), 0),
        batch_host=_text(row.get("batch_host")),
        stdout=_text(row.get("standard_output")),
        stderr=_text(row.get("standard_error")),
        workdir=_text(row.get("current_working_directory")),
    )


def node_of(row: dict[str, Any]) -> Node:
    """One record of sinfo or scontrol. Raises SchedulerError for a record without a usable name."""
    name = _text(row.get("name"))
    if not NODE_NAME.match(name):
        raise SchedulerError("a node record without a name")
    states = _states(row.get("state"))
    flags = frozenset(states[1:]) | frozenset(_states(row.get("state_flags")))
    partitions = row.get("partitions")
    return Node(
        name=name,
        state=states[0] if states else "UNKNOWN",
        flags=flags,
        reason=_text(row.get("reason")),
        partitions=tuple(p for p in partitions if isinstance(p, str)) if isinstance(partitions, list) else (),
    )
