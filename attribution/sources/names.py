"""What the names of files and folders say: job, rank, node, restart.

Sources: ``filename pattern`` in sbatch(1) and srun(1) (``%j %A_%a %x %N %t %s``), torchrun's log folders
(``RUN/attempt_K/LOCAL_RANK/stdout.log``), and what sites call their files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attribution.model import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHints:
    """What a file's name says. `name` is what is left of it beside the parts understood.

    `boot_s` is told by the beginning of a kernel log: when the clock was 0 that its lines show.
    """

    job_id: str | None = None
    array: int | None = None
    name: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    node: str | None = None
    step: str | None = None
    restart: int | None = None
    boot_s: float | None = None

    @property
    def is_part(self) -> bool:
        """True where the name tells one rank, task or node of a job, so that other files belong to it."""
        return any(x is not None for x in (self.rank, self.task, self.node, self.local_rank))


_COMPRESSED = re.compile(r"\.(?:gz|zst|zstd|xz|bz2)$", re.IGNORECASE)
_TEXT_SUFFIX = re.compile(r"\.(?:log|out|err|txt|stdout|stderr|jsonl?|output|error|o|e)$", re.IGNORECASE)
_SEPARATOR = r"(?:^|[-_.])"

_RANK = re.compile(_SEPARATOR + r"(?:global[-_]?)?rank[-_]?(?P<rank>\d{1,7})(?=$|[-_.])", re.IGNORECASE | re.ASCII)
_LOCAL = re.compile(_SEPARATOR + r"local[-_]?rank[-_]?(?P<local_rank>\d{1,4})(?=$|[-_.])", re.IGNORECASE | re.ASCII)
_TASK = re.compile(
    _SEPARATOR + r"(?:task|proc|process|worker|procid)[-_]?(?P<task>\d{1,7})(?=$|[-_.])", re.IGNORECASE | re.ASCII
)
_RESTART = re.compile(
    _SEPARATOR + r"(?:restart|attempt|retry|try)[-_]?(?P<restart>\d{1,5})(?=$|[-_.])", re.IGNORECASE | re.ASCII
)
_NODE_WORD = (
    r"(?:(?:gpu|node|nid|cn|host|hgx|dgx|compute|nvl|hpc|trn|gh|h100|a100|b200)[a-z]{0,12}[-_]?(?:[a-z]{1,8}-?)?\d{1,6}(?:-\d{1,6})?"
    r"|[ncr]\d{1,5}(?:[inucs]\d{1,4})*|x\d+c\d+s\d+b\d+n\d+|ip-\d{1,3}(?:-\d{1,3}){3}|inst-[a-z0-9-]{3,60}"
    r")"
)
_NODE = re.compile(rf"^(?P<node>{_NODE_WORD})$", re.IGNORECASE | re.ASCII)
_NODE_PART = re.compile(rf"{_SEPARATOR}(?P<node>{_NODE_WORD})$", re.IGNORECASE | re.ASCII)
#: Names that end like a node but count runs.
_NO_NODE = re.compile(
    r"^(?:run|job|test|exp|experiment|train|eval|step|epoch|ckpt|checkpoint|part|log|out|slurm|seed|trial|model|version|v|case"
    r"|sweep|fold|stage|phase|day|week|result|iter|sample|bench|baseline|task|rank|worker|attempt|restart|line|data|file|batch)"
    r"(?![a-z])",
    re.IGNORECASE,
)

_ID = r"(?P<job>\d{1,12})(?:[_.](?P<array>\d{1,9}))?"
_JOBS = tuple(
    re.compile(p, re.IGNORECASE | re.ASCII)
    for p in (
        rf"^(?:slurm|slurmjob|lsf|pbs|job|jobid)[-_.]?{_ID}(?:[-_.](?P<node>[a-z][a-z-]*\d+))?(?:-t?(?P<task>\d{{1,6}}))?$",
        # %x-%j, %x_%A_%a, %x.o%j
        r"^(?P<name>\S*?[A-Za-z]\S*?)[-_.][oe]?(?P<job>[1-9]\d{3,11})(?:_(?P<array>\d{1,9}))?$",
        r"^(?P<job>\d{5,12})(?:[_.](?P<array>\d{1,9}))?(?:[-_.](?P<name>[A-Za-z]\S*))?$",
        r"^(?P<job>\d{4})_(?P<array>\d{1,9})$",
    )
)
_FOLDER = re.compile(
    r"^(?:(?:slurm|job|jobid)[-_.]?(?P<job>\d{3,12})|(?P<bare>\d{5,12}))(?:_(?P<array>\d{1,9}))?$", re.ASCII
)
_DATE = re.compile(r"^(?:19|20)\d\d(?:$|(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01]))", re.ASCII)
_TORCHRUN = re.compile(
    r"^/?(?P<job>.*?)/(?:rank_(?P<rank>\d{1,7})/)?attempt_(?P<restart>\d{1,5})/(?:(?P<local_rank>\d{1,4})/)?"
    r"(?:stdout|stderr)(?:\.log)?$",
    re.ASCII,
)
_KERNEL = re.compile(
    r"^(?:dmesg|kern(?:el)?|journal(?:ctl)?|messages|syslog)(?:$|[-_.])|[-_.](?:dmesg|kern(?:el)?|journal(?:ctl)?)$",
    re.IGNORECASE,
)
#: Files beside those of ranks or nodes that belong to the same job.
_COMPANION = re.compile(
    r"^(?:stdout|stderr|out|err|output|error|log|main|master|head|driver|launcher|launch|torchrun|srun|mpirun|agent|sbatch|slurm"
    r"|batch|job|train|training|run|console|nccl|env|controller|scheduler)(?:[-_.](?:out|err|log|stdout|stderr))?$",
    re.IGNORECASE,
)

FIELDS = {
    "job": r"\d+", "array": r"\d+", "task": r"\d+", "rank": r"\d+", "local_rank": r"\d+", "step": r"\w+",
    "restart": r"\d+", "node": r"[\w.-]+?", "name": r".+?",
}  # fmt: skip


def base_of(path: str) -> str:
    """Last part of a path or address."""
    return path.rstrip("/").rpartition("/")[2]


def parent_of(path: str) -> str:
    """A path without its last part; empty for a bare name."""
    return path.rpartition("/")[0]


def stem_of(name: str) -> str:
    """A file's name without compression and text suffixes: ``slurm-42.out.gz`` gives ``slurm-42``."""
    name = _COMPRESSED.sub("", name)
    return _TEXT_SUFFIX.sub("", name)


def suffix_of(name: str) -> str:
    """The text suffix in lower case, with its dot: ``slurm-42.out.gz`` gives ``.out``."""
    found = _TEXT_SUFFIX.search(_COMPRESSED.sub("", name))
    return found.group().lower() if found else ""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A user's ``{job}_{rank}.log`` as a regular expression over a file's name, or over its path where it has a slash.

    Raises:
        ConfigError: an unknown or repeated name in braces.
    """
    out, at = [r"(?:^|/)"], 0
    seen: set[str] = set()
    for found in re.finditer(r"\{(\w*)\}", pattern):
        name = found.group(1)
        if name not in FIELDS or name in seen:
            what = f"field {{{name}}} twice" if name in seen else f"unknown field {{{name}}}"
            raise ConfigError(what, where=f"--pattern {pattern}", mend="use each once: " + ", ".join(FIELDS))
        seen.add(name)
        out.append(re.escape(pattern[at : found.start()]))
        out.append(f"(?P<{name}>{FIELDS[name]})")
        at = found.end()
    out.append(re.escape(pattern[at:]))
    return re.compile("".join(out) + r"(?:\.(?:gz|zst|xz|bz2))?$", re.ASCII)


def from_groups(groups: dict[str, str | None]) -> FileHints:
    """Hints from the named groups of a match."""

    def whole(key: str) -> int | None:
        value = groups.get(key)
        return int(value) if value is not None and value.isdigit() and len(value) < 10 else None

    job, array = groups.get("job"), groups.get("array")
    return FileHints(
        job_id=f"{job}_{array}" if job and array else job,
        array=whole("array"),
        name=groups.get("name"),
        rank=whole("rank"),
        local_rank=whole("local_rank"),
        task=whole("task"),
        node=groups.get("node"),
        step=groups.get("step"),
        restart=whole("restart"),
    )


def is_node(word: str) -> bool:
    """Whether a word looks like the name of a node."""
    return _NODE.match(word) is not None and _NO_NODE.match(word) is None


def hints_of(path: str, patterns: Sequence[re.Pattern[str]] = ()) -> FileHints:
    """What a file's name, and the folders right above it, say."""
    name = base_of(path)
    for pattern in patterns:
        found = pattern.search(path)
        if found:
            return from_groups(found.groupdict())
    if (found := _TORCHRUN.match(path if path.startswith("/") else f"/{path}")) is not None:
        hints = from_groups({**found.groupdict(), "job": None, "name": None})
        run = found["job"] or ""
        # LOGS/NODE/RUN/attempt_0/3/stdout.log: every node has its own run folder.
        return _with_folders(hints, f"{parent_of(run) if is_node(base_of(parent_of(run))) else run}/x")
    return _with_folders(_name_hints(stem_of(name)), path)


def _name_hints(stem: str) -> FileHints:
    """Parts of a name are taken out one by one; a job's name or number may be what is left."""
    parts: dict[str, str | None] = {}
    rest = stem
    for pattern in (_LOCAL, _RANK, _TASK, _RESTART):
        if (found := pattern.search(rest)) is not None:
            parts.update(found.groupdict())
            rest = (rest[: found.start()] + rest[found.end() :]).strip("-_.")
    if parts and rest.isdigit() and 2 < len(rest) < 13:
        return from_groups({"job": rest, **parts})
    if rest and (found := _match_job(rest)) is not None:
        return from_groups({**found.groupdict(), **parts})
    if rest and (found := _NODE_PART.search(rest)) is not None and not _NO_NODE.match(found["node"]):
        before = rest[: found.start()]
        if not before or _match_job(before) or parts:
            inner = _match_job(before)
            return from_groups(
                {**(inner.groupdict() if inner else {"name": before or None}), **parts, "node": found["node"]}
            )
    return from_groups({**parts, "name": rest or None})


def _match_job(text: str) -> re.Match[str] | None:
    if is_node(text):
        return None
    for pattern in _JOBS:
        found = pattern.match(text)
        if found is not None and not _DATE.match(found["job"]):
            return found
    return None


def _with_folders(hints: FileHints, path: str) -> FileHints:
    """Hints completed by the folders above: one named after a node, or after a job."""
    folder = parent_of(path)
    if hints.node is None and is_node(base_of(folder)):
        hints = replace(hints, node=base_of(folder))
        folder = parent_of(folder)
    if hints.job_id is None and (found := _FOLDER.match(base_of(folder))) is not None:
        job = found["job"] or found["bare"]
        if not _DATE.match(job):
            hints = replace(hints, job_id=f"{job}_{found['array']}" if found["array"] else job, name=None)
    return hints


def job_folder_of(path: str) -> str:
    """The folder whose files belong together: that of the file, without torchrun's and nodes' own folders."""
    found = _TORCHRUN.match(path if path.startswith("/") else f"/{path}")
    folder = (found["job"] or "") if found else parent_of(path)
    if found and is_node(base_of(parent_of(folder))):
        folder = parent_of(folder)
    return parent_of(folder) if is_node(base_of(folder)) else folder


def is_kernel_log(path: str) -> bool:
    """Whether a file is named like a kernel log."""
    return _KERNEL.search(stem_of(base_of(path))) is not None


def is_companion(path: str) -> bool:
    """Whether a file is named like the output of a launcher."""
    return _COMPANION.match(stem_of(base_of(path))) is not None


def kernel_hints(path: str) -> FileHints:
    """The node that a kernel log's name, or the folder it lies in, tells: ``dmesg-gpu-001.log``, ``gpu-001/dmesg``."""
    for part in (stem_of(base_of(path)), base_of(parent_of(path))):
        bare = _KERNEL.sub("", part).strip("-_.")
        if bare and re.match(r"^[A-Za-z][\w.-]*\d[\w.-]*$", bare, re.ASCII) and not _NO_NODE.match(bare):
            return FileHints(node=bare)
    return FileHints()
