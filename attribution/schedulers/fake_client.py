"""Slurm's client programs over a `FakeSlurm`: the same argument lists in, the same bytes out.

Lets `SlurmObserver` and `SlurmActor` run unchanged without daemons, with the JSON of 22.05 or of 24.11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from attribution.schedulers.fake import ROOT, FakeJob, FakeNode, FakeSlurm
from attribution.schedulers.runner import Answer, CommandRunner
from attribution.schedulers.slurm import STAMP_FIELDS


@dataclass(slots=True, kw_only=True)
class FakeClient(CommandRunner):
    """A runner that starts no program. `modern` gives 24.11's shapes; `mute` swallows commands without an answer."""

    slurm: FakeSlurm
    user: str = ROOT
    modern: bool = False
    mute: bool = False

    def _run(self, args: tuple[str, ...]) -> Answer:
        self.calls[args[0]] += 1
        if self.slurm.down:
            words = "Unexpected message received" if args[0] == "scontrol" else "Unable to contact slurm controller"
            return _answer(words)
        if args[0] == "sacct":
            return _answer("", "")
        if "--json" in args:
            return self._json(args)
        if args[0] == "squeue":
            return self._stamp(args[args.index("-j") + 1], exclusions="-o" in args)
        if args[0] == "sinfo":
            return self._node(args[args.index("-n") + 1])
        words = self._command(args)
        return Answer(returncode=None, stdout=b"", stderr="", seconds=0.0, cut=True) if self.mute else _answer(words)

    def _command(self, args: tuple[str, ...]) -> str:
        slurm, user = self.slurm, self.user
        if args[0] == "scancel":
            return slurm.do_cancel(user, args[1])
        verb, rest = args[1], args[2:]
        if verb == "requeuehold":
            return slurm.do_requeue(user, rest[-1], hold=True, incomplete=rest[0] == "Incomplete")
        if verb == "release":
            return slurm.do_release(user, rest[0])
        pairs = dict(part.partition("=")[::2] for part in rest)
        if "NodeName" in pairs:
            return slurm.do_node(user, pairs["NodeName"], pairs["State"], pairs.get("Reason", ""))
        target = pairs.pop("JobId")
        words = [slurm.do_update_job(user, target, key, value) for key, value in pairs.items()]
        return next(filter(None, words), "")

    def _json(self, args: tuple[str, ...]) -> Answer:
        if args[0] == "scontrol" and not self.modern:
            return _answer("scontrol: unrecognized option '--json'")
        nodes = "nodes" in args or args[0] == "sinfo"
        if nodes:
            rows = [self._node_row(node) for node in self.slurm.nodes.values()]
        else:
            rows = [self._job_row(job) for job in self.slurm.jobs.values()]
        return _answer("", orjson.dumps({"errors": [], "nodes" if nodes else "jobs": rows}).decode())

    def _number(self, value: int | None) -> Any:
        if not self.modern:
            return value
        return {"set": value is not None, "infinite": False, "number": value or 0}

    def _job_row(self, job: FakeJob) -> dict[str, Any]:
        reason, description = self.slurm.reason(job)
        states = [job.after_completing, "COMPLETING"] if job.state == "COMPLETING" else [job.state]
        exit_code: Any = job.exit_code << 8
        if self.modern:
            exit_code = {"status": ["ERROR"], "return_code": self._number(job.exit_code)}
        return {
            "job_id": job.raw_id,
            "cluster": self.slurm.cluster,
            "array_job_id": self._number(job.array_id or 0),
            "array_task_id": self._number(job.array_task) if self.modern else job.array_task,
            "array_task_string": "",
            "job_state": states if self.modern else job.state,
            "state_reason": reason,
            "state_description": description,
            "submit_time": self._number(job.submit_s),
            "start_time": self._number(int(job.start_s)),
            "end_time": self._number(int(job.end_s)),
            "eligible_time": self._number(int(job.begin_s)),
            "restart_cnt": job.restart,
            "user_name": job.user,
            "user_id": 1001,
            "name": job.name,
            "partition": job.partition,
            "priority": self._number(0 if job.held else 1000),
            "requeue": job.requeue,
            "batch_flag": True,
            "nodes": ",".join(job.nodes),
            "excluded_nodes": ",".join(job.excluded),
            "required_nodes": ",".join(job.required),
            "node_count": self._number(job.node_count),
            "exit_code": exit_code,
            "comment": job.comment,
            "admin_comment": job.admin_comment,
            "het_job_id": self._number(0),
            "het_job_offset": self._number(0),
        }

    def _node_row(self, node: FakeNode) -> dict[str, Any]:
        base, flags = ("down" if node.down else "idle"), (["DRAIN"] if node.drained else [])
        row: dict[str, Any] = {"name": node.name, "reason": node.reason, "partitions": list(node.partitions)}
        if self.modern:
            return {**row, "state": [base.upper(), *flags]}
        return {**row, "state": base, "state_flags": flags}

    def _stamp(self, target: str, exclusions: bool) -> Answer:
        job = self.slurm.find(target)
        if job is None:
            return _answer("slurm_load_jobs error: Invalid job id specified")
        if exclusions:
            return _answer("", f"{job.raw_id}|{','.join(job.excluded)}\n")
        reason, description = self.slurm.reason(job)
        priority = 0 if job.held else 1000
        values = (job.raw_id, job.state, job.restart, job.submit_s, priority, job.user, description or reason)
        line = "".join(f"{value!s:<{width}}" for value, (_, width) in zip(values, STAMP_FIELDS, strict=True))
        return _answer("", line + "\n")

    def _node(self, name: str) -> Answer:
        node = self.slurm.nodes.get(name)
        if node is None:
            return _answer("", "")
        state = "drained" if node.drained else "down" if node.down else "idle"
        return _answer("", f"{node.name}|{state}|{node.reason or 'none'}\n")


def _answer(words: str, stdout: str = "") -> Answer:
    return Answer(returncode=1 if words else 0, stdout=stdout.encode(), stderr=words, seconds=0.0)
