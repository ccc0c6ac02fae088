"""What the content of a log says of its job: id, restart count, nodes, number of ranks, cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from attribution.hostlist import expand
from attribution.model import Line, SchedulerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What was found; None or empty where the content says nothing. `because` names the texts that said it."""

    job_id: str | None = None
    restart: int | None = None
    nodes: tuple[str, ...] = ()
    n_ranks: int | None = None
    cluster: str | None = None
    name: str | None = None
    because: tuple[str, ...] = ()


_ENV = re.compile(
    r"\b(?P<key>SLURM_JOB_?ID|SLURM_RESTART_COUNT|SLURM_(?:JOB_)?NODELIST|SLURM_NTASKS|SLURM_NPROCS|SLURM_CLUSTER_NAME"
    r"|SLURM_JOB_NAME|SLURM_ARRAY_JOB_ID|SLURM_ARRAY_TASK_ID|LSB_JOBID|LSB_JOBNAME|PBS_JOBID|PBS_JOBNAME|WORLD_SIZE)"
    r"[\"']?(?:=|: ?) ?[\"']?(?P<value>[\w.,\[\]-]{1,20000})",
    re.ASCII,
)
_STEP = re.compile(
    r"\*\*\* (?:JOB|STEP) (?P<job>\d{1,12})(?:\.\w+)? ON (?P<node>[\w.-]+)|StepId=(?P<step>\d{1,12})\.\w+", re.ASCII
)
_SRUN = re.compile(
    r"srun: (?:job|jobid|Job) (?P<job>\d{1,12})\b|sbatch: Submitted batch job (?P<batch>\d{1,12})", re.ASCII
)
_LSF = re.compile(r"^Subject: Job (?P<job>\d{1,12})(?:\[\d+\])?: ", re.ASCII)
_NRANKS = re.compile(
    r"\bnranks (?P<a>\d{1,7})\b|\bworld[_ ]?size[\"']?[:= ]{1,3}(?P<b>\d{1,7})\b|using world size: (?P<c>\d{1,7})\b"
    r"|MEMBER: \d+/(?P<d>\d{1,7})\b|number of processes(?: is|:|=) ?(?P<e>\d{1,7})",
    re.ASCII | re.IGNORECASE,
)


def _nodes(text: str) -> tuple[str, ...]:
    try:
        return expand(text)
    except SchedulerError:
        return ()


class _Collector:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.because: list[str] = []

    def put(self, key: str, value: str, line: Line) -> None:
        """The first word on a thing stays."""
        if key not in self.values:
            self.values[key] = value
            self.because.append(f"{line.place.path}:{line.place.line} {key}={value[:60]}")

    def look(self, line: Line) -> None:
        text = line.text
        if "SLURM_" in text or "_JOBID" in text or "WORLD_SIZE" in text:
            for m in _ENV.finditer(text[:20_000]):
                self.put(
                    m["key"].replace("JOBID", "JOB_ID").replace("SLURM_NODELIST", "SLURM_JOB_NODELIST"),
                    m["value"],
                    line,
                )
        step, launch, lsf = _STEP.search(text), _SRUN.search(text), _LSF.match(text)
        if step is not None:
            self.put("step_job", step["job"] or step["step"], line)
        elif launch is not None:
            self.put("srun_job", launch["job"] or launch["batch"], line)
        elif lsf is not None:
            self.put("lsf_job", lsf["job"], line)
        ranks = _NRANKS.search(text[:2000])
        # A complaint that the world size is wrong names the wrong one too.
        if ranks is not None and "!=" not in text and "Error" not in text:
            value = next(v for v in ranks.groups() if v)
            # Of several communicators the largest is the world's.
            if int(self.values.get("nranks", 0)) < int(value) < 10**7:
                self.values.pop("nranks", None)
                self.put("nranks", value, line)


def identify(lines: Iterable[Line]) -> Identity:
    """Identity from a log's first and last lines; of several words on one thing the most official counts."""
    found = _Collector()
    for line in lines:
        found.look(line)
    v = found.values
    job = next(
        (v[k] for k in ("SLURM_JOB_ID", "step_job", "srun_job", "LSB_JOB_ID", "PBS_JOB_ID", "lsf_job") if k in v), None
    )
    if "SLURM_ARRAY_JOB_ID" in v and "SLURM_ARRAY_TASK_ID" in v:
        job = f"{v['SLURM_ARRAY_JOB_ID']}_{v['SLURM_ARRAY_TASK_ID']}"
    restart = v.get("SLURM_RESTART_COUNT")
    ranks = v.get("WORLD_SIZE") or v.get("nranks") or v.get("SLURM_NTASKS")
    return Identity(
        job_id=job,
        restart=int(restart) if restart and restart.isdigit() and len(restart) < 6 else None,
        nodes=_nodes(v["SLURM_JOB_NODELIST"]) if "SLURM_JOB_NODELIST" in v else (),
        n_ranks=int(ranks) if ranks and ranks.isdigit() and len(ranks) < 8 else None,
        cluster=v.get("SLURM_CLUSTER_NAME"),
        name=v.get("SLURM_JOB_NAME"),
        because=tuple(found.because),
    )
