"""Facts -> one HTML page. Every value passes Jinja's escaping; only our own charts are markup."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jinja2

from attribution import __version__
from attribution.redact import Level, redact
from attribution.report.console import visible
from attribution.report.html import charts, detail, fleet

if TYPE_CHECKING:
    from attribution.model import ProgressPoint
    from attribution.store import Store

#: Failed attempts shown one by one below the overview; the rest are counted.
MOST_DETAILS = 50
MOST_LISTED = 500


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("attribution.report.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(log=_log, utc=_utc, hours=_hours, share=lambda x: f"{100 * x:.0f} %", anchor=_anchor)
    env.globals.update(charts=charts, version=__version__, several=_several)
    return env


def _log(text: object, limit: int = 400) -> str:
    """Log text for a page: secrets out once more, control characters visible, bounded."""
    return visible(redact(str(text or ""), level=Level.SECRETS), limit)


def _utc(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "unknown"


def _hours(value: float | None) -> str:
    if value is None:
        return "∞"
    if value < 1 / 60:
        return f"{value * 3600:.0f} s"
    return f"{value * 60:.1f} min" if value < 1 else f"{value:,.1f} h"


def _several(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _anchor(attempt_id: str) -> str:
    """An id for links that holds whatever characters a job's name had."""
    return "a-" + attempt_id.encode("utf-8", "replace").hex()


def store_report(store: Store, *, now_s: float | None = None, title: str = "Why jobs failed") -> str:
    """The overview of a store, with its failed attempts one by one.

    Raises:
        StoreError: the store cannot be read.
    """
    facts = fleet.read(store)
    failed = sorted(facts.failures, key=lambda r: (-(r.end_s or 0.0), r.id))
    details = [detail.read(store, r.id) for r in failed[:MOST_DETAILS]]
    shown = {d.document["attempt"]["id"] for d in details}
    listed = failed[:MOST_LISTED]
    return _render("report.html", title=title, fleet=facts, failed=listed, details=details, shown=shown, now_s=now_s)


def attempt_report(
    store: Store, attempt_id: str, *, points: Sequence[ProgressPoint] | None = None, now_s: float | None = None
) -> str:
    """The page of one attempt. `points` are its progress points where its log was read again.

    Raises:
        StoreError: no attempt, or several, begin so.
    """
    found = detail.read(store, attempt_id, points=points)
    return _render("attempt.html", title=found.document["attempt"]["id"], details=[found], now_s=now_s)


def _render(name: str, **values: Any) -> str:
    return _environment().get_template(f"{name}.j2").render(**values).strip() + "\n"
