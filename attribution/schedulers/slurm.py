"""Slurm through its client programs: one observer that can only ask, one actor that can only do the listed steps.

Ids and node names reach a command only if the last observation showed them; everything else is refused here, whatever a
log or a comment said. What Slurm answers is mapped to `ReplyKind` by its own words, see `_REPLIES`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from attribution.hostlist import NODE_NAME, expand
from attribution.model import SchedulerError
from attribution.policy.optin import OptIn
from attribution.schedulers.base import (
    OWN_PREFIX,
    Job,
    Node,
    Reply,
    ReplyKind,
    Stamp,
    Step,
    StepKind,
    StepRecord,
    World,
)
from attribution.schedulers.rest import RestReader
from attribution.schedulers.runner import Answer, CommandRunner, ReadRunner, printable
from attribution.schedulers.slurm_json import documents, hold_of, job_of, node_of

JOB_ID = re.compile(r"^[1-9]\d{0,9}(?:_\d{1,7}|\+\d{1,5})?$", re.ASCII)
MAX_REASON = 400
#: Fields of one squeue row and their widths; none of them is free text of a user.
STAMP_FIELDS = (
    ("JobID", 16),
    ("State", 20),
    ("RestartCnt", 10),
    ("SubmitTime", 16),
    ("PriorityLong", 24),
    ("UserName", 40),
    ("Reason", 60),
)
_STAMP_FORMAT = ",".join(f"{name}:{width}" for name, width in STAMP_FIELDS)

#: Words of scontrol and scancel (22.05.8 and 24.11.5) and what they mean for us. The first hit counts.
_REPLIES: tuple[tuple[str, ReplyKind], ...] = (
    ("Job is pending execution", ReplyKind.ALREADY),
    ("Job is no longer pending execution", ReplyKind.TOO_LATE),
    ("Job has already finished", ReplyKind.TOO_LATE),
    ("Job/step already completing or completed", ReplyKind.ALREADY),
    ("Invalid job id specified", ReplyKind.GONE),
    ("Requested operation is presently disabled", ReplyKind.DISABLED),
    ("Only batch jobs are accepted", ReplyKind.DISABLED),
    ("Access/permission denied", ReplyKind.DENIED),
    ("Invalid user id", ReplyKind.DENIED),
    ("Invalid node name specified", ReplyKind.INVALID),
    ("Job not heterogeneous job leader", ReplyKind.INVALID),
    ("Invalid node state specified", ReplyKind.INVALID),
    ("Requested node configuration is not available", ReplyKind.INVALID),
)


def reply_of(answer: Answer) -> Reply:
    """What a command's end means. No answer, or words that we do not know, mean unknown: it may have been done."""
    text = printable(f"{answer.stderr} {answer.stdout.decode('utf-8', 'replace')}".strip())
    if answer.returncode == 0:
        return Reply(kind=ReplyKind.ACCEPTED, text=text)
    kind = kind_of(text) if answer.returncode is not None else ReplyKind.UNKNOWN
    return Reply(kind=kind, text=text or "no answer within the time limit")


def kind_of(words: str) -> ReplyKind:
    """What Slurm's words at exit 1 mean; "Unexpected message received" and all unknown ones mean unknown."""
    return next((kind for known, kind in _REPLIES if known in words), ReplyKind.UNKNOWN)


@dataclass(slots=True, kw_only=True)
class SlurmObserver:
    """Looks at Slurm. `opt_in` reads a job comment; `cluster` names the cluster where Slurm does not.

    `rest` reads the whole picture from slurmrestd; second looks stay with squeue and sinfo.
    """

    runner: ReadRunner
    rest: RestReader | None = None
    opt_in: Callable[[str], OptIn] | None = None
    cluster: str | None = None
    now: Callable[[], float] = time.time
    _modern: bool | None = field(default=None, init=False)

    def observe(self) -> World:
        """Jobs by one call and nodes by another. Ended jobs are there as long as slurmctld remembers them."""
        began = self.now()
        problems: list[str] = []
        jobs: dict[str, Job] = {}
        nodes: dict[str, Node] = {}
        try:
            rows, told = self._rows("jobs")
            problems += told
            for row in rows:
                try:
                    job = job_of(row, self.opt_in)
                except SchedulerError as error:
                    problems.append(printable(str(error)))
                    continue
                jobs[job.id] = job
            # where the first call failed the second one would block for as long again
            rows, told = self._rows("nodes") if not problems else ([], ())
            problems += told
            for row in rows:
                node = node_of(row)
                nodes[node.name] = node
        except SchedulerError as error:
            problems.append(printable(str(error)))
        cluster = self.cluster or next((job.cluster for job in jobs.values() if job.cluster), None)
        # a view is as old as its first call
        return World(
            observed_at_s=began,
            cluster=cluster,
            jobs=jobs,
            nodes=nodes,
            whole=not problems and bool(nodes),
            problems=tuple(problems),
        )

    def _rows(self, what: str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Records of "jobs" or "nodes", by whichever call this Slurm has; remembered after the first answer.

        `scontrol --json` (23.02 and later) shows ended jobs too; `squeue --json` of 22.05 does, that of 24.11 does not.
        """
        if self.rest is not None:
            return self.rest.rows(what)
        if self._modern is not False:
            answer = self.runner.query("scontrol", "--json", "show", what)
            if answer.returncode == 0 and answer.stdout.lstrip()[:1] == b"{":
                self._modern = True
                return documents(answer.stdout, what)
            if self._modern or "option" not in answer.stderr:
                raise SchedulerError(f"scontrol show {what}: {reply_of(answer).text}")
            self._modern = False
        answer = self.runner.query(*(("squeue", "--json") if what == "jobs" else ("sinfo", "--json")))
        if answer.returncode != 0 and not answer.stdout.strip():
            raise SchedulerError(f"{what}: {reply_of(answer).text}")
        return documents(answer.stdout, what)

    def stamp(self, job: Job) -> Stamp | None:
        """One row of squeue with no field that a user writes freely, and for a pending job its exclusions."""
        lines = self._squeue(job, "-O", _STAMP_FORMAT)
        found = next((s for s in map(_stamp_of, lines) if s and s.raw_id == job.raw_id), None)
        if found is None or found.state != "PENDING":
            return found
        # -O has no name for the exclusions in 22.05
        for line in self._squeue(job, "-o", "%A|%x"):
            raw_id, _, nodes = line.partition("|")
            if raw_id == str(job.raw_id):
                return replace(found, excluded=expand(nodes.strip()))
        return None

    def _squeue(self, job: Job, *form: str) -> list[str]:
        answer = self.runner.query("squeue", "-h", "-a", "-r", "-t", "all", "-j", job_argument(job), *form)
        if answer.returncode == 0:
            return answer.stdout.decode("utf-8", "replace").splitlines()
        if reply_of(answer).kind is ReplyKind.GONE:
            return []
        raise SchedulerError(f"squeue: {reply_of(answer).text}")

    def node(self, name: str) -> Node | None:
        """State and reason of one node, the reason being the last field because admins write it."""
        if not NODE_NAME.match(name):
            return None
        answer = self.runner.query("sinfo", "-h", "-N", "-n", name, "-o", "%N|%T|%E")
        if answer.returncode != 0:
            raise SchedulerError(f"sinfo: {reply_of(answer).text}")
        head, _, reason = answer.stdout.decode("utf-8", "replace").partition("|")[2].partition("|")
        if not answer.stdout.startswith(name.encode() + b"|"):
            return None
        # %T: "drained", "draining", "drained*": lower case, suffixes for flags
        state = head.strip("*~#!%$@^-+").upper()
        reason = reason.split("\n", 1)[0]
        flags = frozenset({"DRAIN"} if state.startswith("DRAIN") else {"FAIL"} if state.startswith("FAIL") else set())
        return Node(name=name, state=state, flags=flags, reason="" if reason == "none" else reason)

    def accounting(self, job: Job) -> tuple[StepRecord, ...]:
        """sacct of this attempt and its steps; duplicates of older attempts are left out by the submit time."""
        fields = "JobIDRaw,State,ExitCode,Start,End,NodeList"
        answer = self.runner.query("sacct", "-n", "-P", "-D", "-j", str(job.raw_id), "-o", fields)
        if answer.returncode != 0:
            return ()
        found = []
        for line in answer.stdout.decode("utf-8", "replace").splitlines()[:10_000]:
            parts = line.split("|")
            if len(parts) == 6:
                keep = [printable(part, 120) for part in parts]
                found.append(
                    StepRecord(
                        job_id=keep[0], state=keep[1], exit_code=keep[2], start=keep[3], end=keep[4], nodes=keep[5]
                    )
                )
        return tuple(found)


def _stamp_of(line: str) -> Stamp | None:
    fields, at = [], 0
    for _, width in STAMP_FIELDS:
        fields.append(line[at : at + width].strip())
        at += width
    raw_id, state, restart, submit, priority, user, reason = fields
    if not (raw_id.isdigit() and restart.isdigit() and submit.isdigit() and priority.isdigit()):
        return None
    return Stamp(
        raw_id=int(raw_id),
        state=state,
        hold=hold_of(reason, "", int(priority), state),
        restart=int(restart),
        submit_time_s=int(submit),
        user=user,
    )


def job_argument(job: Job) -> str:
    """The id of an observed job as an argument. Raises SchedulerError when it has not the form of one."""
    if not JOB_ID.match(job.id):
        raise SchedulerError(f"{job.id!r} is not a job id")
    return job.id


@dataclass(slots=True, kw_only=True)
class SlurmActor:
    """Gives commands. Holds the only runner that can."""

    runner: CommandRunner

    def act(self, step: Step) -> Reply:
        """Run the command of `step`; several targets (parts of a heterogeneous job) stop at the first refusal."""
        reply = Reply(kind=ReplyKind.INVALID, text="nothing to run")
        for args in self.commands(step):
            reply = reply_of(self.runner.command(*args))
            if reply.kind is not ReplyKind.ACCEPTED:
                break
        return reply

    def commands(self, step: Step) -> tuple[tuple[str, ...], ...]:
        """Argument lists of a step; empty for steps that need no command. Raises SchedulerError for bad names."""
        return commands_of(step)


def commands_of(step: Step) -> tuple[tuple[str, ...], ...]:
    """The argument lists that a step means. Pure; also used to show steps in observe mode."""
    if step.kind in (StepKind.DRAIN, StepKind.UNDRAIN):
        return (_node_command(step),)
    if step.kind is StepKind.SAVE_EVIDENCE or step.job is None:
        return ()
    ids = step.targets or (job_argument(step.job),)
    for name in ids:
        if not JOB_ID.match(name):
            raise SchedulerError(f"{name!r} is not a job id")
    for name in step.exclude:
        if not NODE_NAME.match(name):
            raise SchedulerError(f"{name!r} is not a node name")
    nodes = ",".join(step.exclude)
    forms: dict[StepKind, Callable[[str], tuple[str, ...]]] = {
        StepKind.REQUEUE_HOLD: lambda i: (
            ("scontrol", "requeuehold", "Incomplete", i) if step.stop_running else ("scontrol", "requeuehold", i)
        ),
        StepKind.UPDATE_CONSTRAINTS: lambda i: ("scontrol", "update", f"JobId={i}", f"ExcNodeList={nodes}"),
        StepKind.MARK: lambda i: ("scontrol", "update", f"JobId={i}", f"AdminComment={_own(step.text)}"),
        StepKind.RELEASE: lambda i: ("scontrol", "release", i),
        StepKind.START_NOW: lambda i: ("scontrol", "update", f"JobId={i}", "StartTime=now"),
        StepKind.CANCEL: lambda i: ("scancel", i),
    }
    return tuple(forms[step.kind](name) for name in ids)


def _node_command(step: Step) -> tuple[str, ...]:
    if step.node is None or not NODE_NAME.match(step.node.name):
        raise SchedulerError("a node step without a node")
    if step.kind is StepKind.UNDRAIN:
        return ("scontrol", "update", f"NodeName={step.node.name}", "State=UNDRAIN")
    reason = _own(step.text)
    return ("scontrol", "update", f"NodeName={step.node.name}", "State=DRAIN", f"Reason={reason}")


def _own(text: str) -> str:
    """Text with our prefix, one printable line. Quotes are left out: Slurm's printing does not escape them."""
    clean = printable(text.replace('"', "").replace("'", "").replace("\\", ""), MAX_REASON)
    return clean if clean.startswith(OWN_PREFIX) else f"{OWN_PREFIX} {clean}"
