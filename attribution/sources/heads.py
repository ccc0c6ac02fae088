"""Prefixes that launchers, schedulers and loggers put in front of a message, in any stacked order.

`strip` takes them off one by one and notes what they say. What signatures need stays: NCCL's ``host:pid:tid [dev]``,
glog heads, ``slurmstepd: error:`` and ``srun: error:`` belong to the message. Each shape here was seen in a real log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from attribution.sources.stamps import stamp

_MOST_PREFIXES = 10
_LEVELS = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|SUCCESS)"
_ISO = r"(?:19|20)\d\d[-/]\d\d[-/]\d\d[T _:]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE = r"(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"

# [rank3]: (torch), [Rank 0] (DeepSpeed), [rank2]:[rank2]:
_RANK = re.compile(r"\s*\[rank[ :]?(\d{1,7})\]:? ?", re.IGNORECASE | re.ASCII)
# [3]: text, a rank by torchrun's and DeepSpeed's log prefix; "[3]:" alone is a head of torchrun's failure summary.
_NUMBER = re.compile(r"\[(\d{1,6})\]: (?=\S)", re.ASCII)
# [default3]:, [trainer0]: (torchrun role and local rank)
_LOCAL = re.compile(r"\[(?!rank)[A-Za-z_]{2,40}?(\d{1,4})\]: ?", re.ASCII)
# [1,13]<stdout>: (mpirun --tag-output), [prterun-node1-77@1,13]<stderr>:
_MPI = re.compile(r"\[(?:[\w.-]{1,80}@)?\d{1,9},(\d{1,7})\](?:\[[^\]\n]{0,80}\])?<std(?:out|err|diag)>: ?", re.ASCII)
# dmesg: [12345.678901], [12345.678901][ T123], <6>[ 12.345678]; UCX: [1579244743.735971], seconds since the epoch
_DMESG = re.compile(r"(?:<\d{1,3}>)?\[ *(\d{1,10}\.\d{6})\](?: ?\[ *[TC]\d+\])? ?", re.ASCII)
# dmesg -T: [Mon Jun 14 03:21:57 2025]
_CTIME = re.compile(
    r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? (?:[A-Z]{3,4} )?\d{4}\] ?", re.ASCII
)
# Cray PMI: Mon Feb 10 10:35:00 2025: [PE_1452]:text. A bare date is a message: nvidia-smi's banner.
_CTIME_COLON = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}: ", re.ASCII)
_PE = re.compile(r"\[PE_(\d{1,7})\]: ?", re.ASCII)
# dmesg -x: kern  :err   :
_FACILITY = re.compile(r"(?:kern|user|daemon|syslog) *: *(?:emerg|alert|crit|err|warn|notice|info|debug) *: ", re.ASCII)
# kubectl logs --prefix: [pod/train-worker-0/pytorch]
_POD = re.compile(r"\[pod/(?P<pod>[\w.-]{1,120})/[\w.-]{1,120}\] ", re.ASCII)
# [INFO] [file.py:12:func] [Rank 0] text (DeepSpeed, after its stamp)
_BRACKET_LEVEL = re.compile(rf"\[{_LEVELS}\]:? ?(?:\[[\w./-]{{1,80}}:\d{{1,6}}(?::[\w<>]{{1,60}})?\] ?)?", re.ASCII)
_BRACKET_TIME = re.compile(
    rf"[\[(]{_ISO}{_ZONE}(?: (?:{_LEVELS}|(?:[TDPE]P\d{{1,4}} ?)+))?[\])](?: ?[-:|,](?= ))? ?", re.ASCII
)

# (WorkerDict pid=123, ip=10.0.0.1) text, with [repeated 5x across cluster] behind it; (raylet), (raylet, ip=...)
_RAY = re.compile(r"\([^()\n]{0,120}?\bpid=(?P<pid>\d{1,9})(?:, ip=(?P<ip>[\w.:-]{1,60}))?[^()\n]{0,60}\) ?", re.ASCII)
_RAY_SYSTEM = re.compile(
    r"\((?:raylet|autoscaler|gcs_server|scheduler)(?:, ip=(?P<ip>[\w.:-]{1,60}))?[^()\n]{0,60}\) ?", re.ASCII
)
_REPEATED = re.compile(r" ?\[repeated (\d{1,9})x across cluster\](?: \(Ray deduplicates.*)?\s*$", re.ASCII | re.DOTALL)

# srun -l: "  0: text"; a clock ("10: 23:45") and "12:" glued to text are none.
_TASK = re.compile(r" *(\d{1,6}):(?: |$)(?!\d\d:\d\d)", re.ASCII)
# docker, containerd, kubernetes: 2024-01-01T00:00:00.123456789Z stdout F text
_CRI = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?", re.ASCII)
# 2024-05-01 12:00:00,123 - root - ERROR -
_TIME = re.compile(rf" ?{_ISO}{_ZONE}(?: ?[-:|,](?= |$))? ?", re.ASCII)
_SYSLOG = re.compile(
    r"(?:<\d{1,3}>)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})? (?P<host>[\w.-]{1,120}) "
    r"(?:kernel|[\w./@()-]{1,60}(?:\[(?P<pid>\d{1,9})\])?): ?",
    re.ASCII,
)
_SYSLOG_ISO = re.compile(
    rf"{_ISO}{_ZONE} (?P<host>[\w.-]{{1,120}}) (?:kernel|[\w./@()-]{{1,60}}\[(?P<pid>\d{{1,9}})\]): ?", re.ASCII
)
# journalctl -o short-monotonic, behind its [12345.678901]
_JOURNAL = re.compile(r"(?P<host>[\w.-]{1,120}) (?:kernel|[\w./@-]{1,60}\[\d{1,9}\]): ", re.ASCII)

# pdsh, clush: "node-17: text". Only names that look like hosts: "libc.so.6: " and "python3.10: " do too.
_HOST = re.compile(
    r"(?P<host>(?:(?:gpu|node|nid|cn|dgx|compute|worker|host|hgx|nvl|hpc|trn)[\w-]{0,60}\d[\w-]{0,60}|inst-[\w-]{1,90}|ip-\d[\d-]{1,40}"
    r"|x\d{1,6}c\d{1,4}s\d{1,4}b\d{1,4}n\d{1,4})"
    r"(?:\.[A-Za-z][\w.-]{0,160})?|\d{1,3}(?:\.\d{1,3}){3}): (?:rank (?P<rank>\d{1,7}): )?",
    re.ASCII,
)
# docker compose: "trainer-1  | text", "trainer | text"
_COMPOSE = re.compile(r"[A-Za-z][\w.-]{0,60}(?:[-_]\d{1,4} *| {2,})\| ", re.ASCII)
# mod - ERROR - text, mod:func:12 | ERROR | text
_LOGGER = re.compile(
    rf"[\w.<>/-]{{1,80}}(?::[\w<>]{{1,60}}:\d{{1,6}}| \[\d+\])? ?[-|] ?\[?{_LEVELS}\]? *[-|:] ?(?:- )?", re.ASCII
)
_WORD_LEVEL = re.compile(
    rf"{_LEVELS}(?:"
    r" +[|-] +(?:[\w.<>/-]{1,80}:[\w<>]{1,60}:\d{1,6} - )?"  # loguru: ERROR    | mod:func:12 - text
    r"|:[A-Za-z_][\w.]{0,80}:(?! )"  # logging's own default: ERROR:root:text
    r"| +(?:\d\d-\d\d \d\d:\d\d:\d\d )?\[?[\w./-]{1,80}\.py:\d{1,6}\]? ?:? ?"  # vLLM: INFO 05-01 12:00:00 a.py:12] text
    r")",
    re.ASCII,
)
_MONTHS = frozenset(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"))
_DAYS = frozenset(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))
_LEVEL_STARTS = frozenset(("TRAC", "DEBU", "INFO", "NOTI", "WARN", "ERRO", "CRIT", "FATA", "SUCC"))


@dataclass(slots=True)
class Head:
    """What the prefixes of one message said; None where they said nothing. `seen` names them, outermost first."""

    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    host: str | None = None
    pid: int | None = None
    time_s: float | None = None
    count: int = 1
    seen: tuple[str, ...] = ()


class Stripper:
    """Takes prefixes off the lines of one file; knows the year and the time of the line before."""

    __slots__ = ("boot_s", "default_year", "near_s")

    def __init__(self, default_year: int, boot_s: float | None = None) -> None:
        self.default_year = default_year
        self.boot_s = boot_s
        self.near_s: float | None = None

    def strip(self, text: str, head: Head) -> str:
        """`text` without prefixes, which are noted in `head`."""
        for _ in range(_MOST_PREFIXES):
            end = self._one(text, head)
            if not end:
                break
            text = text[end:]
        if "[repeated " in text and (m := _REPEATED.search(text)) is not None:
            head.count = max(1, int(m.group(1)))
            head.seen += ("ray repeated",)
            text = text[: m.start()]
        return text.rstrip()

    def _one(self, text: str, head: Head) -> int:
        """Length of the first prefix of `text`, 0 where it has none."""
        first = text[:1]
        if first == "[":
            return self._bracket(text, head)
        if first == "(":
            return _parenthesis(text, head)
        if first.isdigit() or first == " ":
            return self._digit(text, head)
        if first.isalpha() or first == "<":
            return self._word(text, head)
        return 0

    def _date(self, m: re.Match[str], head: Head, name: str) -> int:
        time_s = stamp(m.group(), self.default_year, self.near_s)
        head.time_s = time_s if time_s is not None else head.time_s
        head.seen += (name,)
        return m.end()

    def _monotonic(self, m: re.Match[str], head: Head) -> int:
        """Seconds since boot tell the time only where the boot's is known; so many that they count from 1970 do."""
        seconds = float(m.group(1))
        if seconds >= 1e9:
            head.time_s = seconds
        elif self.boot_s is not None and head.time_s is None:
            head.time_s = self.boot_s + seconds
        head.seen += ("dmesg",) if seconds < 1e9 else ("epoch",)
        return m.end()

    def _bracket(self, text: str, head: Head) -> int:
        second = text[1:2]
        if second in "rR" and (m := _RANK.match(text)) is not None:
            head.rank, head.seen = int(m.group(1)), (*head.seen, "[rankN]:")
            return m.end()
        if second.isdigit() or second == " ":
            if (m := _BRACKET_TIME.match(text)) is not None:
                return self._date(m, head, "time")
            if (m := _DMESG.match(text)) is not None:
                return self._monotonic(m, head)
        if (m := _MPI.match(text)) is not None:
            head.rank, head.seen = int(m.group(1)), (*head.seen, "mpirun")
            return m.end()
        if (m := _NUMBER.match(text)) is not None:
            head.rank, head.seen = int(m.group(1)), (*head.seen, "[N]:")
            return m.end()
        if second == "P" and (m := _PE.match(text)) is not None:
            head.rank, head.seen = int(m.group(1)), (*head.seen, "cray")
            return m.end()
        if (m := _LOCAL.match(text)) is not None:
            head.local_rank, head.seen = int(m.group(1)), (*head.seen, "torchrun")
            return m.end()
        if text[1:4] in _DAYS and (m := _CTIME.match(text)) is not None:
            return self._date(m, head, "ctime")
        for pattern, name in ((_BRACKET_LEVEL, "level"), (_POD, "kubectl")):
            if (m := pattern.match(text)) is not None:
                head.seen += (name,)
                return m.end()
        return 0

    def _digit(self, text: str, head: Head) -> int:
        if head.task is None and (m := _TASK.match(text)) is not None:
            head.task, head.seen = int(m.group(1)), (*head.seen, "srun -l")
            return m.end()
        if text[:1] == " ":
            bare = text.lstrip(" ")
            if bare[:1] != "[" or not (_RANK.match(bare) or _BRACKET_TIME.match(bare)):
                return 0
            return len(text) - len(bare) + self._bracket(bare, head)
        if (m := _SYSLOG_ISO.match(text)) is not None:
            head.host = m["host"]
            return self._date(m, head, "journal")
        if (m := _CRI.match(text)) is not None:
            return self._date(m, head, "container")
        if (m := _TIME.match(text)) is not None:
            return self._date(m, head, "time")
        return self._host(text, head)

    def _host(self, text: str, head: Head) -> int:
        if head.host is not None or (m := _HOST.match(text)) is None:
            return 0
        head.host, head.seen = m["host"], (*head.seen, "host")
        if m["rank"]:
            head.rank = int(m["rank"])
        return m.end()

    def _word(self, text: str, head: Head) -> int:
        start = text[:3]
        if (start in _MONTHS or start[:1] == "<") and (m := _SYSLOG.match(text)) is not None:
            head.host = m["host"]
            return self._date(m, head, "syslog")
        if start in _DAYS and (m := _CTIME_COLON.match(text)) is not None:
            return self._date(m, head, "ctime")
        if start[:1] == "<":
            return self._monotonic(m, head) if (m := _DMESG.match(text)) is not None else 0
        if text[:4] in _LEVEL_STARTS and (m := _WORD_LEVEL.match(text)) is not None:
            head.seen += ("level",)
            return m.end()
        if (end := self._host(text, head)) > 0:
            return end
        if head.seen and head.seen[-1] == "dmesg" and (m := _JOURNAL.match(text)) is not None:
            head.host, head.seen = m["host"], (*head.seen, "journal")
            return m.end()
        beginning = text[:140]
        if (" - " in beginning or "|" in beginning) and (m := _LOGGER.match(text)) is not None:
            head.seen += ("logger",)
            return m.end()
        if "| " in beginning and (m := _COMPOSE.match(text)) is not None:
            head.seen += ("compose",)
            return m.end()
        if (m := _FACILITY.match(text)) is not None:
            head.seen += ("dmesg -x",)
            return m.end()
        return 0


def _parenthesis(text: str, head: Head) -> int:
    if (m := _RAY.match(text)) is not None:
        head.pid, head.host = int(m["pid"]), m["ip"] or head.host
    elif (m := _RAY_SYSTEM.match(text)) is not None:
        head.host = m["ip"] or head.host
    else:
        return 0
    head.seen += ("ray",)
    return m.end()
