"""Time stamps of every shape that logs of training jobs show, to seconds since the epoch.

A stamp without a zone is read as UTC. A stamp without a year gets the year that brings it nearest to a neighbour, or
the year given. A text without a stamp gives None.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from datetime import UTC, datetime, timedelta, timezone

#: Stamps are looked for in this many characters at a text's beginning.
LOOK = 240
_DAY_S = 86_400

_CLOCK = re.compile(r"\d\d:\d\d:\d\d|\"time_ms\"", re.ASCII)
_HMS = r"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)"
# Not within a path or a name: "ckpt-2024-05-01_22:04:48/" dates a run, not the line.
_ISO = re.compile(
    r"(?<![\w/.-])[IWEFCD]?(?P<y>(?:19|20)\d\d)[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[T _:]"
    + _HMS
    + r"(?:[.,](?P<f>\d{1,9}))?"
    r" ?(?P<z>Z|UTC|[+-]\d\d:?\d\d\b|[AP]M\b)?",
    re.ASCII,
)
_GLOG = re.compile(r"(?:^|[\[:\s])[IWEFCD](?P<mo>\d{1,2})(?P<d>\d\d) " + _HMS + r"(?:\.(?P<f>\d{1,9}))?", re.ASCII)
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SYSLOG = re.compile(
    r"\b(?P<mon>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6} {1,2}(?P<d>\d{1,2})"
    r"(?:,? (?P<y1>(?:19|20)\d\d),?)? "
    + _HMS
    + r"(?:\.(?P<f>\d{1,9}))?(?: (?P<ampm>[AP]M))?(?: (?:[A-Z]{3,5} )?(?P<y2>(?:19|20)\d\d)\b)?",
    re.ASCII,
)
# NeMo and DeepSpeed's monitor: "[05/01/24 22:04:11]", "05-01 22:04:11".
_US = re.compile(
    r"(?<![\w/.-])(?P<mo>\d\d)(?P<sep>[/-])(?P<d>\d\d)(?:(?P=sep)(?P<y>(?:20)?\d\d))? "
    + _HMS
    + r"(?:[.,](?P<f>\d{1,9}))?",
    re.ASCII,
)
_MLLOG = re.compile(r'"time_ms": ?(?P<ms>\d{12,14})(?!\d)', re.ASCII)


def _zone(text: str | None) -> timezone:
    if not text or text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "")
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=min(int(digits[:2]), 23), minutes=min(int(digits[2:]), 59)))


def _seconds(year: int, month: int, m: re.Match[str], zone: timezone = UTC, half: str | None = None) -> float | None:
    """Seconds since the epoch of a matched clock; `half` is AM or PM."""
    hour = int(m["h"])
    if half in ("AM", "PM"):
        hour = hour % 12 + (12 if half == "PM" else 0)
    try:
        moment = datetime(year, month, int(m["d"]), hour, int(m["mi"]), min(int(m["s"]), 59), tzinfo=zone)
        whole = timegm(moment.utctimetuple())
    except (ValueError, OverflowError):
        return None
    return whole + (float(f"0.{m['f']}") if m["f"] else 0.0)


def _yearless(month: int, m: re.Match[str], default_year: int, near_s: float | None, half: str | None) -> float | None:
    year = default_year if near_s is None else time.gmtime(near_s).tm_year
    if near_s is None:
        return _seconds(year, month, m, half=half)
    near = [t for y in (year - 1, year, year + 1) if (t := _seconds(y, month, m, half=half)) is not None]
    return min(near, key=lambda t: abs(t - near_s), default=None)


def stamp(text: str, default_year: int, near_s: float | None = None) -> float | None:
    """The first time stamp in the first `LOOK` characters of `text`, in seconds since the epoch.

    Args:
        text: a line or its prefix.
        default_year: for stamps without a year where there is no neighbour.
        near_s: time of a neighbouring line, None where none is known.
    """
    head = text[:LOOK]
    if _CLOCK.search(head) is None:
        return None
    if (m := _ISO.search(head[:180])) is not None:
        return _seconds(int(m["y"]), int(m["mo"]), m, _zone(m["z"]), m["z"])
    if (m := _GLOG.search(head)) is not None:
        return _yearless(int(m["mo"]), m, default_year, near_s, None)
    if (m := _MLLOG.search(head)) is not None:
        return int(m["ms"]) / 1000.0
    if (m := _SYSLOG.search(head[:100])) is not None:
        month = _NAMES.index(m["mon"].lower()) + 1
        year = m["y1"] or m["y2"]
        if year:
            return _seconds(int(year), month, m, half=m["ampm"])
        return _yearless(month, m, default_year, near_s, m["ampm"])
    if (m := _US.search(head[:64])) is not None:
        if m["y"]:
            return _seconds(int(m["y"]) % 100 + 2000, int(m["mo"]), m)
        return _yearless(int(m["mo"]), m, default_year, near_s, None)
    return None
