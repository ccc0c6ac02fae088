"""Kernel logs: dmesg in its forms, journal, syslog. Which node, and when it booted.

Plain dmesg counts seconds from the boot and names no node. The node comes from the file's name or from the lines, the
boot's time from the line in which the kernel sets its clock (drivers/rtc/class.c: ``setting system clock to ... (N)``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from attribution.sources.blocks import ReadReport, read_blocks
from attribution.sources.heads import Head, Stripper
from attribution.sources.names import FileHints, kernel_hints

if TYPE_CHECKING:
    from attribution.sources.discover import SourceFile

#: Lines of a kernel log's first block that are looked at for a host name.
_LOOK_LINES = 200
_CLOCK = re.compile(
    rb"\[ *(?P<since>\d{1,9}\.\d{1,9})\][^\n]{0,80}setting system clock to [^\n(]{0,60}\((?P<epoch>\d{9,11})\)"
)


def boot_time(data: bytes) -> float | None:
    """Seconds since the epoch at which the kernel of this log booted, None where it does not say."""
    found = list(_CLOCK.finditer(data))
    return float(found[-1]["epoch"]) - float(found[-1]["since"]) if found else None


def host_of(data: bytes) -> str | None:
    """Name of the node that syslog or journal lines give, None where they give none or several."""
    hosts = set()
    for line in data.split(b"\n", _LOOK_LINES)[:_LOOK_LINES]:
        head = Head()
        Stripper(1970).strip(line[:1000].decode("utf-8", "replace"), head)
        if head.host and {"syslog", "journal"}.intersection(head.seen):
            hosts.add(head.host)
    return hosts.pop() if len(hosts) == 1 else None


def hints_of_kernel_log(file: SourceFile) -> FileHints:
    """Node and boot time of a kernel log, from its name, its folder's name and its beginning."""
    first = next(read_blocks(file, report=ReadReport()), None)
    data = bytes(first.data) if first is not None else b""
    named = kernel_hints(file.path)
    return replace(named, node=named.node or host_of(data), boot_s=boot_time(data))
