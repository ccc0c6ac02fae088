"""Time stamps of every shape that logs of training jobs show, to seconds since the epoch.

Stamps without a zone are read as UTC; stamps without a year take the one given. A text without a stamp gives None.
"""

from __future__ import annotations

import re
from calendar import timegm
from datetime import datetime, timedelta, timezone

_ISO = re.compile(
    r"(?P<y>(?:19|20)\d\d)[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[T _](?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
    r"\s?(?P<z>Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_GLOG = re.compile(r"\[?[IWEFCD](?P<mo>\d{1,2})(?P<d>\d\d) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)\.(?P<f>\d{1,9})", re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SYSLOG = re.compile(
    r"(?P<mon>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6} {1,2}(?P<d>\d{1,2}) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)"
    r"(?:\.(?P<f>\d{1,6}))?(?: (?P<ampm>[AP]M))?(?: (?:[A-Z]{3,5} )?(?P<y>(?:19|20)\d\d))?",
    re.ASCII,
)
_MLLOG = re.compile(r'"time_ms": ?(?P<ms>\d{12,14})', re.ASCII)
#: Stamps are looked for in this many characters at a text's beginning.
LOOK = 240


def _zone(text: str | None) -> timezone:
    if not text or text == "Z":
        return timezone.utc
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    return timezone(sign * timedelta(hours=min(int(digits[:2]), 23), minutes=min(int(digits[2:]), 59)))


def _seconds(year: int, month: int, day: int, h: str, mi: str, s: str, fraction: str | None, zone: timezone) -> float | None:
    try:
        moment = datetime(year, month, day, int(h), int(mi), min(int(s), 59), tzinfo=zone)
    except ValueError:
        return None
    return timegm(moment.utctimetuple()) + (float(f"0.{fraction}") if fraction else 0.0)


def stamp(text: str, default_year: int) -> float | None:
    """The first time stamp in the first `LOOK` characters of `text`, in seconds since the epoch."""
    head = text[:LOOK]
    if (m := _ISO.search(head)) is not None:
        return _seconds(int(m["y"]), int(m["mo"]), int(m["d"]), m["h"], m["mi"], m["s"], m["f"], _zone(m["z"]))
    if (m := _GLOG.match(head)) is not None:
        return _seconds(default_year, int(m["mo"]), int(m["d"]), m["h"], m["mi"], m["s"], m["f"], timezone.utc)
    if (m := _MLLOG.search(head)) is not None:
        return int(m["ms"]) / 1000.0
    if (m := _SYSLOG.search(head[:80])) is not None:
        year = int(m["y"]) if m["y"] else default_year
        hour = m["h"]
        if m["ampm"]:
            hour = str(int(hour) % 12 + (12 if m["ampm"] == "PM" else 0))
        return _seconds(year, _MONTHS.index(m["mon"].lower()) + 1, int(m["d"]), hour, m["mi"], m["s"], m["f"], timezone.utc)
    return None
