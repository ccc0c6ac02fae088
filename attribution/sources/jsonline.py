"""Log lines that are JSON objects: message, exception, rank, host and time from the fields that loggers use.

Seen: python-json-logger, structlog, zap, Docker's json-file driver, journalctl -o json, torch elastic error files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attribution.sources.stamps import stamp

#: A longer line is not read as JSON; messages kept of one line, lines kept of one message.
MOST_CHARACTERS = 4 << 20
_MOST_MESSAGES = 8
_MOST_LINES = 400
_MOST_DEPTH = 3

_MESSAGE = ("message", "msg", "MESSAGE", "log", "text", "event", "body")
_TRACE = ("exc_info", "exception", "traceback", "error", "err", "stack", "stack_trace", "exc_text", "py_callstack")
_TIME = ("time", "ts", "timestamp", "asctime", "@timestamp", "datetime", "t", "__REALTIME_TIMESTAMP")
_RANK = ("rank", "global_rank", "RANK")
_LOCAL = ("local_rank", "LOCAL_RANK")
_HOST = ("host", "hostname", "node", "_HOSTNAME", "nodename")
_PID = ("pid", "process", "_PID")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLine:
    """What one JSON line says. `messages` are whole lines, those of an exception one by one."""

    messages: tuple[str, ...]
    time_s: float | None = None
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None


def parse_json_line(text: str, default_year: int) -> JsonLine | None:
    """A JSON log line, None for text that is no JSON object or holds no message."""
    if len(text) > MOST_CHARACTERS or not text.startswith("{") or not text.rstrip().endswith("}"):
        return None
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    found = list(_messages(row, 0))[:_MOST_MESSAGES]
    if not found:
        return None
    if len(found) == 1 and " " not in found[0]:
        # {"event": "step", "iter": 10, "loss": 2.1}: the fields are the message.
        found = [text]
    lines = [line for message in found for line in message.split("\n")[:_MOST_LINES] if line.strip()]
    host = _first(row, _HOST)
    return JsonLine(
        messages=tuple(dict.fromkeys(lines)) if len(found) > 1 else tuple(lines),
        time_s=_time(_first(row, _TIME), default_year),
        rank=_whole(_first(row, _RANK), 10**7),
        local_rank=_whole(_first(row, _LOCAL), 10**4),
        host=host[:255] if isinstance(host, str) and host else None,
        pid=_whole(_first(row, _PID), 10**9),
    )


def _first(row: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """The value of the first key that is there, also one level down (``{"extra": {"rank": 3}}``)."""
    for where in (row, *(v for v in row.values() if isinstance(v, dict))):
        for key in keys:
            if key in where and not isinstance(where[key], dict | list):
                return where[key]
    return None


def _messages(row: dict[str, Any], depth: int) -> Iterator[str]:
    for key in (*_MESSAGE, *_TRACE):
        value = row.get(key)
        if isinstance(value, str) and value.strip():
            yield value
        elif isinstance(value, list) and value and all(isinstance(v, str) for v in value):
            yield "\n".join(v.rstrip("\n") for v in value)
    if depth < _MOST_DEPTH:
        for value in row.values():
            if isinstance(value, dict):
                yield from _messages(value, depth + 1)


def _whole(value: Any, below: int) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below else None


def _time(value: Any, default_year: int) -> float | None:
    """Seconds from a stamp, or from a number of seconds, milli-, micro- or nanoseconds since the epoch."""
    if isinstance(value, str):
        bare = value.replace(".", "", 1)
        if not (bare.isascii() and bare.isdigit() and len(bare) < 30):
            return stamp(value, default_year)
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    for scale in (1.0, 1e3, 1e6, 1e9):
        seconds = float(value) / scale if abs(value) < 1e20 else 0.0
        # 2001 to 2096: anything else is a counter, not a clock.
        if 1e9 <= seconds < 4e9:
            return seconds
    return None
