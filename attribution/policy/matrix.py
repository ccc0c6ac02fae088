"""The whole of a policy at a glance: class x status x history -> action. A change of policy is a readable difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attribution.model import Action, Status
from attribution.policy.cases import situation
from attribution.policy.document import LADDER, Policy
from attribution.signatures import ClassInfo

#: History of a situation: name, what it is, and the keys of a case that make it.
HISTORIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("first", "nothing was before", {}),
    ("further", "three attempts before, each got further", {"further": 3}),
    ("again", "twice before by the same root, no further", {"same_root": 2}),
    ("others", "four attempts before by other roots, no further", {"other_roots": 4}),
    ("no steps", "nothing was before, no step was made", {"progressed": False}),
    ("unread", "twice before by the same root, no progress format", {"same_root": 2, "progressed": "unknown"}),
    ("worn", "twenty attempts before, each got further", {"further": 20}),
)
_NODES = {"nodes": ("node-1", "node-2", "node-3"), "culprit_nodes": ("node-2",)}
_SHORT = {Action.RESTART_EXCLUDING: "exclude"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One situation and its answer."""

    failure_class: str
    status: Status
    history: str
    action: Action
    row: str
    weakened: bool


def matrix(policy: Policy, taxonomy: Mapping[str, ClassInfo]) -> tuple[Cell, ...]:
    """Every class of the taxonomy in its order, every status, surest first, every history. The culprit node is named."""
    out = []
    for name in taxonomy:
        for status in reversed(LADDER):
            for history, _, keys in HISTORIES:
                got = situation(taxonomy, {"class": name, "status": status, **_NODES, **keys}).advice(policy, taxonomy)
                out.append(
                    Cell(
                        failure_class=name,
                        status=status,
                        history=history,
                        action=got.action,
                        row=got.reason_code,
                        weakened=bool(got.limits),
                    )
                )
    return tuple(out)


def matrix_text(policy: Policy, cells: tuple[Cell, ...]) -> str:
    """The matrix for a person: one line per class, more where the status matters. `*` marks what a guard rail weakened."""
    lines = [
        f"policy {policy.name}: what it does by class, status and history (one culprit node of three is named)",
        "",
    ]
    lines += [f"  {name:<9} {what}" for name, what, _ in HISTORIES]
    lines += ["", "exclude = restart_excluding; * = weakened by a guard rail; statuses that agree stand together", ""]
    wide = max(len(c.failure_class) for c in cells) + 2
    head = f"{'class':<{wide}}{'status':<26}" + "".join(f"{name:<10}" for name, _, _ in HISTORIES)
    lines += [head, "-" * len(head.rstrip())]
    by_class: dict[str, dict[Status, list[str]]] = {}
    for c in cells:
        word = _SHORT.get(c.action, str(c.action)) + ("*" if c.weakened else "")
        by_class.setdefault(c.failure_class, {}).setdefault(c.status, []).append(word)
    for name, rows in by_class.items():
        grouped: dict[tuple[str, ...], list[Status]] = {}
        for status, words in rows.items():
            grouped.setdefault(tuple(words), []).append(status)
        for i, (words_, statuses) in enumerate(grouped.items()):
            label = "any" if len(statuses) == len(LADDER) else ", ".join(statuses)
            lines.append(f"{name if i == 0 else '':<{wide}}{label:<26}" + "".join(f"{w:<10}" for w in words_).rstrip())
    return "\n".join(line.rstrip() for line in lines) + "\n"
