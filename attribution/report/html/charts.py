"""Charts as inline SVG. Text is escaped by `Markup.format`; colours are CSS variables, so that light, dark and print fit.

Every chart has a title for screen readers and stands beside a table with the same numbers. Marks differ by shape as well
as by colour.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from attribution.report.html.detail import Timeline
from attribution.report.html.fleet import Period, Size

if TYPE_CHECKING:
    from attribution.model import ProgressPoint

WIDTH = 960
#: Families with a colour of their own; the rest are drawn together.
COLOURS = 8
_GAP = 3


def _svg(height: float, title: str, body: Iterable[str], *, width: int = WIDTH) -> Markup:
    return Markup(
        '<svg viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{t}"><title>{t}</title>{body}</svg>'
    ).format(w=width, h=round(height), t=title, body=Markup("").join(body))


def _text(x: float, y: float, text: object, *, anchor: str = "start", css: str = "tick") -> Markup:
    return Markup('<text x="{x:.1f}" y="{y:.1f}" text-anchor="{a}" class="{c}">{t}</text>').format(
        x=x, y=y, a=anchor, c=css, t=text
    )


def _line(x1: float, y1: float, x2: float, y2: float, css: str = "grid") -> Markup:
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>').format(x1, y1, x2, y2, css)


def families(periods: Sequence[Period]) -> tuple[str, ...]:
    """Families in the order of their colours, most first; what has no colour of its own is ``other``, last."""
    totals: dict[str, int] = {}
    for p in periods:
        for name, n in p.counts.items():
            totals[name] = totals.get(name, 0) + n
    names = sorted(totals, key=lambda n: (-totals[n], n))
    return tuple(names) if len(names) <= COLOURS else (*names[: COLOURS - 1], "other")


def shares(period: Period, names: Sequence[str]) -> tuple[int, ...]:
    """Counts of a period in the order of `names`; ``other`` takes what none of them names."""
    named = [period.counts.get(n, 0) for n in names]
    if names and names[-1] == "other":
        named[-1] = period.attempts - sum(named[:-1])
    return tuple(named)


def mix(periods: Sequence[Period]) -> Markup:
    """Failures over time, stacked by family."""
    names = families(periods)
    left, top, height = 44, 12, 200
    most = max((p.attempts for p in periods), default=0) or 1
    step = _nice(most / 4)
    ceiling = math.ceil(most / step) * step
    wide = (WIDTH - left - 8) / max(len(periods), 1)
    bar = min(wide - _GAP, 64)
    body = []
    for k in range(round(ceiling / step) + 1):
        y = top + height * (1 - k * step / ceiling)
        body += [_line(left, y, WIDTH - 8, y), _text(left - 8, y + 4, f"{k * step:g}", anchor="end")]
    every = -(-len(periods) // 10)
    for i, p in enumerate(periods):
        x, y = left + i * wide + (wide - bar) / 2, float(top + height)
        for colour, (name, n) in enumerate(zip(names, shares(p, names), strict=True)):
            if not n:
                continue
            tall = height * n / ceiling
            y -= tall
            body.append(
                Markup(
                    '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="c{}"><title>{}: {} {}</title></rect>'
                ).format(x, y, bar, max(tall - 1, 1), colour, p.label, n, name)
            )
        if i % every == 0:
            body.append(_text(x + bar / 2, top + height + 18, p.label, anchor="middle"))
    return _svg(top + height + 28, "Failures over time by family", body)


def bar(value: float, most: float, *, width: int = 160) -> Markup:
    """A bar for a table cell."""
    long = 0 if most <= 0 else max(1.0 if value > 0 else 0.0, width * value / most)
    return Markup(
        '<svg class="bar" viewBox="0 0 {w} 12" width="{w}" height="12" aria-hidden="true">'
        '<rect y="1" width="{v:.1f}" height="10" rx="2" class="c0"/></svg>'
    ).format(w=width, v=long)


def span(low: float, middle: float, high: float, *, width: int = 160) -> Markup:
    """A proportion with its interval, for a table cell; the axis runs from 0 to 1."""
    return Markup(
        '<svg class="bar" viewBox="-5 0 {o} 12" width="{o}" height="12" aria-hidden="true">'
        '<line x1="0" x2="{w}" y1="6" y2="6" class="grid"/>'
        '<line x1="{a:.1f}" x2="{b:.1f}" y1="6" y2="6" class="whisker"/><circle cx="{m:.1f}" cy="6" r="4" class="c0"/></svg>'
    ).format(o=width + 10, w=width, a=low * width, b=high * width, m=middle * width)


def mttf(sizes: Sequence[Size]) -> Markup:
    """Mean time to failure by job size, with intervals, hours on a logarithmic axis."""
    left, top, row = 150, 10, 34
    values = [v for s in sizes for v in (s.low, s.mttf, s.high) if v]
    first = math.floor(math.log10(min(values, default=1.0)))
    last = max(math.ceil(math.log10(max(values, default=10.0))), first + 1)

    def at(hours: float) -> float:
        return left + (WIDTH - left - 40) * (math.log10(max(hours, 10.0**first)) - first) / (last - first)

    bottom = top + row * len(sizes)
    body = []
    for power in range(first, last + 1):
        x = at(10.0**power)
        body += [_line(x, top, x, bottom), _text(x, bottom + 18, _hours(10.0**power), anchor="middle")]
    for i, s in enumerate(sizes):
        y = top + row * (i + 0.5)
        end = at(s.high) if s.high is not None else WIDTH - 24.0
        body += [
            _text(left - 12, y + 4, f"{s.label} GPUs", anchor="end", css="label"),
            _line(at(s.low), y, end, y, "whisker"),
        ]
        if s.high is None:
            body.append(Markup('<path d="M{0:.1f} {1:.1f}l-8 -5v10z" class="c0"/>').format(end + 8, y))
        if s.mttf is not None:
            body.append(Markup('<circle cx="{:.1f}" cy="{:.1f}" r="5" class="c0"/>').format(at(s.mttf), y))
    return _svg(bottom + 28, "Mean time to failure by job size", body)


def _hours(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * 3600:.2g} s"
    return f"{hours * 60:.2g} min" if hours < 1 else f"{hours:g} h"


_SHAPES = {
    "root": "M{x:.1f} {y:.1f}m0 -8l8 8l-8 8l-8 -8z",
    "confirmation": "M{x:.1f} {y:.1f}m-7 -2.5h4.5v-4.5h5v4.5h4.5v5h-4.5v4.5h-5v-4.5h-4.5z",
    "cascade": "M{x:.1f} {y:.1f}m-5 -5h10v10h-10z",
    "teardown": "M{x:.1f} {y:.1f}m0 -5l5.5 9h-11z",
}


def shape(role: str) -> Markup:
    """The mark of a role, for a legend."""
    return Markup('<svg class="key" viewBox="-9 -9 18 18" width="18" height="18" aria-hidden="true">{}</svg>').format(
        Markup('<path d="{}" class="r-{}"/>').format(_SHAPES[role].format(x=0, y=0), role)
    )


def timeline(t: Timeline) -> Markup:
    """Lanes of ranks, hosts or files against time or order; the same line of several lanes stays apart by lane."""
    left, top, row = 190, 14, 26 if len(t.lanes) <= 24 else 20
    places = [x for x, _ in t.marks]
    first, last = min(places, default=0.0), max(places, default=1.0)
    wide = (last - first) or 1.0
    bottom = top + row * len(t.lanes)

    def at(x: float) -> float:
        return left + 14 + (WIDTH - left - 48) * (x - first) / wide

    body = []
    for i, lane in enumerate(t.lanes):
        y = top + row * (i + 0.5)
        name = lane if len(lane) <= 26 else lane[:25] + "…"
        body += [_line(left, y, WIDTH - 16, y), _text(left - 10, y + 4, name, anchor="end", css="label")]
    if t.timed:
        step = _nice(wide / 5)
        for k in range(int(wide / step) + 1):
            x = at(first + k * step)
            body += [
                _line(x, top, x, bottom, "grid faint"),
                _text(x, bottom + 18, f"+{_seconds(k * step)}", anchor="middle"),
            ]
    else:
        body.append(_text(left + 14, bottom + 18, "order of lines, file by file; the log has no time stamps to go by"))
    row_of = {lane: top + row * (i + 0.5) for i, lane in enumerate(t.lanes)}
    for x, m in sorted(t.marks, key=lambda p: p[1].role == "root"):
        path = _SHAPES.get(m.role, _SHAPES["cascade"]).format(x=at(x), y=row_of[m.lane])
        aside = " aside" if m.episode or m.recovered else ""
        body.append(
            Markup('<path d="{}" class="r-{}{}"><title>{} {}:{} {}</title></path>').format(
                path, m.role, aside, m.role, m.path, m.line, m.text[:160]
            )
        )
    return _svg(bottom + 28, "Timeline of the attempt by rank", body)


def curve(points: Sequence[ProgressPoint], marks: Sequence[float] = ()) -> Markup | None:
    """Loss against step, or step against order where no loss is printed; None where there is nothing to draw."""
    pairs = [
        (float(p.step), p.loss) for p in points if p.step is not None and p.loss is not None and math.isfinite(p.loss)
    ]
    what = "loss by step"
    if len(pairs) < 2:
        pairs = [(float(i), float(p.step)) for i, p in enumerate(points) if p.step is not None]
        what = "step by progress line"
    if len(pairs) < 2:
        return None
    left, top, height = 64, 12, 180
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    x0, x1, y0, y1 = min(xs), max(xs), min(ys), max(ys)
    step = _nice((y1 - y0) / 4 or 1.0)
    y0, y1 = math.floor(y0 / step) * step, math.ceil(y1 / step) * step
    y1 = y1 if y1 > y0 else y0 + step

    def at(x: float, y: float) -> tuple[float, float]:
        return (left + (WIDTH - left - 24) * (x - x0) / ((x1 - x0) or 1.0), top + height * (1 - (y - y0) / (y1 - y0)))

    body = []
    for k in range(round((y1 - y0) / step) + 1):
        _, y = at(x0, y0 + k * step)
        body += [_line(left, y, WIDTH - 24, y), _text(left - 8, y + 4, f"{y0 + k * step:.4g}", anchor="end")]
    for x in (x0, (x0 + x1) / 2, x1):
        body.append(_text(at(x, y0)[0], top + height + 18, f"{x:.0f}", anchor="middle"))
    for x in marks:
        if x0 <= x <= x1 and what.startswith("loss"):
            body.append(_line(at(x, y0)[0], top, at(x, y0)[0], top + height, "checkpoint"))
    # A restart inside the attempt goes back in steps: the line is broken there, not drawn backwards.
    d, before = "", math.inf
    for x, y in pairs:
        px, py = at(x, y)
        d += f"{'M' if x < before or not d else 'L'}{px:.1f} {py:.1f}"
        before = x
    body.append(Markup('<path d="{}" class="curve"/>').format(d))
    bad = [p.step for p in points if p.loss is not None and not math.isfinite(p.loss) and p.step is not None]
    if bad and what.startswith("loss"):
        body.append(_text(WIDTH - 28, top + 14, f"loss not finite from step {bad[0]}", anchor="end", css="label"))
    return _svg(top + height + 28, f"Progress: {what}", body)


def _nice(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten; at least a whole number above one half."""
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)


def _seconds(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else str(datetime.timedelta(seconds=round(seconds)))
