"""A first draft of a rule, from its id and a line."""

from __future__ import annotations

import re

from attribution.model import Source
from attribution.signatures.proof import parsed

_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9][a-z0-9_]*)+")
_VOLATILE = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)*|/[^\s'\"]+")


def is_id(text: str) -> bool:
    """True where `text` may be the id of a rule."""
    return _ID.fullmatch(text) is not None


def draft_pattern(message: str) -> str:
    """A pattern for a message: its words as they are, numbers, addresses and paths left open."""
    out, at = "", 0
    for found in _VOLATILE.finditer(message):
        out += re.escape(message[at : found.start()])
        text = found.group()
        out += r"0x[0-9a-fA-F]+" if text.startswith("0x") else r"\S+" if text.startswith("/") else r"[\d.]+"
        at = found.end()
    return (out + re.escape(message[at:])).replace(r"\ ", " ").replace(r"\-", "-").replace(r"\#", "#")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def draft(rule: str, line: str, failure_class: str, role: str, source: Source) -> str:
    """YAML of a new rule. `line` is the whole printed line; its prefix is left out of the pattern."""
    messages = parsed(line, source)
    message = messages[-1].text.strip() if messages else line.strip()
    words = rule.rsplit(".", 1)[-1].replace("_", " ")
    named = f"    class: {failure_class}\n" if failure_class else ""
    sources = "" if source is Source.JOB_LOG else f"    sources: [{source.value}]\n"
    return (
        f"  - id: {rule}\n"
        f"    title: {words}\n"
        f"{named}"
        f"    role: {role}\n"
        f"    status: experimental\n"
        f"    specificity: 50\n"
        f"{sources}"
        f"    match:\n"
        f"      any:\n"
        f"        - {_quoted(draft_pattern(message))}\n"
        f'    limits: ""\n'
        f'    fix: ""\n'
        f"    references: []\n"
        f"    examples:\n"
        f"      - text: {_quoted(line)}\n"
        f"    counterexamples:\n"
        f"      - text: {_quoted('a line that looks alike and is not meant')}\n"
    )
