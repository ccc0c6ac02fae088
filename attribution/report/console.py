"""Diagnoses for a terminal: what, where, how sure, what next; then the evidence. Log text is never markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from attribution.model import Episode, Match

Document = Mapping[str, Any]

_OUTCOME = {
    "completed": "green", "running": "green", "failed": "bold red", "hung": "bold magenta", "slow": "yellow",
    "cancelled": "cyan", "unknown": "yellow",
}  # fmt: skip
_ACTION = {
    "none": "green",
    "restart": "yellow",
    "restart_excluding": "yellow",
    "hold": "bold red",
    "terminate": "bold red",
}
_ROLE = {"root": "bold red", "cascade": "yellow", "teardown": "dim", "confirmation": "magenta"}
#: Attempts shown in full before the table takes over.
FULL = 8


def visible(text: str, limit: int = 400) -> str:
    """Log text with control characters made visible, so that it cannot steer the terminal."""
    shown = "".join(
        c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" if ord(c) < 256 else "\ufffd" for c in text
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _who(document: Document) -> str:
    culprit = document["culprit"]

    def told(value: Any) -> str:
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

    parts = [f"{kind} {told(culprit[kind])}" for kind in ("node", "rank", "gpu") if culprit[kind] is not None]
    return ", ".join(parts) if parts else (culprit["because"] or "nobody singled out")


def _progress(document: Document) -> str:
    p = document["progress"]
    if p["dialect"] is None:
        return "no progress format recognised"
    step = (
        "no step"
        if p["last_step"] is None
        else f"step {p['last_step']}" + (f" of {p['total_steps']}" if p["total_steps"] else "")
    )
    saved = f", last checkpoint {p['last_checkpoint_step']}" if p["last_checkpoint_step"] is not None else ""
    return f"{step}{saved} ({p['dialect']})"


def _advice(document: Document) -> Text:
    advice = document["advice"]
    if not advice:
        return Text("no advice")
    text = Text(advice["action"], style=_ACTION.get(advice["action"], ""))
    if advice["exclude_nodes"]:
        text.append(f" without {', '.join(advice['exclude_nodes'])}")
    if advice["reason"]:
        text.append(f": {visible(advice['reason'])}", style="default")
    return text


def attempt_panel(document: Document) -> RenderableType:
    """One attempt in full."""
    head = Text()
    head.append(document["outcome"], style=_OUTCOME.get(document["outcome"], ""))
    if document["class"]:
        head.append(f"  {document['class']}", style="bold")
    head.append(f"  {document['status']}, confidence {document['confidence']:.2f}", style="dim")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    root = document["root"]
    if root:
        facts.add_row("where", Text(f"{root['path']}:{root['line']}"))
        facts.add_row("", Text(visible(root["text"]), style="red"))
    if document["outcome"] not in ("completed", "running"):
        facts.add_row("who", Text(_who(document)))
    facts.add_row("got to", Text(_progress(document)))
    facts.add_row("next", _advice(document))
    if document["advice"] and document["advice"]["fix"]:
        facts.add_row("mend", Text(visible(document["advice"]["fix"])))
    for limit in (document["advice"] or {}).get("limits", []):
        facts.add_row("limit", Text(visible(limit), style="dim"))
    parts: list[RenderableType] = [head, facts]
    if len(document["evidence"]) > 1:
        parts.append(Padding(_evidence(document["evidence"][1:9]), (1, 0, 0, 0)))
    if document["runner_up"]:
        other = document["runner_up"]
        parts.append(
            Text(f"or {other['class']} ({other['confidence']:.2f}) if {visible(other['flips_if'] or '')}", style="dim")
        )
    if document["missing"]:
        parts.append(Text("missing: " + visible("; ".join(document["missing"])), style="dim"))
    where = ", ".join(document["attempt"]["files"][:2]) + (" ..." if len(document["attempt"]["files"]) > 2 else "")
    return Panel(
        Group(*parts),
        title=Text(document["attempt"]["id"]),
        subtitle=Text(where),
        title_align="left",
        subtitle_align="left",
    )


def _evidence(items: Sequence[Mapping[str, Any]]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="cyan", max_width=40, overflow="ellipsis")
    table.add_column(overflow="fold")
    for item in items:
        times = f" ×{item['count']}" if item["count"] > 1 else ""
        name = item["path"].rsplit("/", 1)[-1]
        table.add_row(
            Text(item["role"], style=_ROLE.get(item["role"], "")),
            Text(f"{name}:{item['line']}{times}"),
            Text(visible(item["text"], 160)),
        )
    return table


def summary(documents: Sequence[Document]) -> RenderableType:
    """Many attempts: how they ended, then one row each of those that did not complete."""
    counts = Counter(f"{d['outcome']}" for d in documents)
    classes = Counter(d["class"] for d in documents if d["outcome"] not in ("completed", "running"))
    head = Text(
        f"{len(documents)} attempts: "
        + ", ".join(f"{n} {k}" for k, n in sorted(counts.items(), key=lambda x: (-x[1], x[0])))
    )
    mix = Table(title="why", title_justify="left", box=None, padding=(0, 2))
    mix.add_column("attempts", justify="right")
    mix.add_column("class")
    for name, n in sorted(classes.items(), key=lambda x: (-x[1], x[0] or ""))[:20]:
        mix.add_row(str(n), str(name))
    rows = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("attempt", "outcome", "class", "status", "who", "next", "where"):
        rows.add_column(column, overflow="fold", no_wrap=column in ("outcome", "status"))
    for d in documents:
        if d["outcome"] in ("completed", "running"):
            continue
        where = f"{d['root']['path'].rsplit('/', 1)[-1]}:{d['root']['line']}" if d["root"] else ""
        rows.add_row(
            Text(d["attempt"]["id"]), Text(d["outcome"], style=_OUTCOME.get(d["outcome"], "")), d["class"] or "",
            d["status"], Text(_who(d)), Text(d["advice"]["action"] if d["advice"] else ""), Text(where),
        )  # fmt: skip
    return Group(head, Text(), mix, Text(), rows) if rows.row_count else Group(head)


def show(documents: Sequence[Document], console: Console | None = None) -> None:
    """Print attempts: in full where they are few, as a table where they are many."""
    console = console or Console()
    if len(documents) <= FULL:
        for d in documents:
            console.print(attempt_panel(d))
    if len(documents) > 1:
        console.print(summary(documents))


def explanation(
    document: Document, episodes: Sequence[Episode], context: Mapping[tuple[str, int], Sequence[str]]
) -> RenderableType:
    """The whole chain of one attempt: lines in context, matches with roles, why this root, why this advice.

    `context` gives, for (path, line) of a cited match, the raw lines around it with their numbers in front.
    """
    parts: list[RenderableType] = [attempt_panel(document)]
    for number, episode in enumerate(episodes):
        title = (
            "the answer" if number == 0 and not episode.recovered else "recovered" if episode.recovered else "beside it"
        )
        parts.append(Text(f"\nepisode {number}: {title}", style="bold"))
        parts.extend(Text(f"  because {visible(b)}") for b in episode.because)
        for role in ("initiating", "confirmation", "cascade", "teardown"):
            matches: Sequence[Match] = getattr(episode, role)
            parts.extend(_match(role, m, context) for m in matches[:6])
            if len(matches) > 6:
                parts.append(Text(f"  … and {len(matches) - 6} more {role} matches", style="dim"))
    parts.append(Text("\nwhy", style="bold"))
    parts.extend(Text(f"  {visible(b)}") for b in document["because"])
    if document["advice"]:
        parts.append(Text("\nwhy this advice", style="bold"))
        parts.append(Text(f"  {document['advice']['reason_code']}: {visible(document['advice']['reason'])}"))
        parts.extend(Text(f"  {visible(b)}") for b in (*document["advice"]["because"], *document["advice"]["limits"]))
    return Group(*parts)


def _match(role: str, match: Match, context: Mapping[tuple[str, int], Sequence[str]]) -> RenderableType:
    style = _ROLE.get("root" if role == "initiating" else role, "")
    head = Text("  ")
    head.append(role, style=style)
    rank = f" rank {match.place.rank}" if match.place.rank is not None else ""
    head.append(f"  {match.place.path}:{match.place.line}{rank}  {match.signature}", style="cyan")
    lines = context.get((match.place.path, match.place.line))
    body = (
        [Text("      " + visible(line, 200), style="dim") for line in lines]
        if lines
        else [Text("      " + visible(match.text, 200))]
    )
    return Group(head, *body)
