"""A root without what changes from attempt to attempt: for telling whether the same trouble came again."""

from __future__ import annotations

import hashlib
import re

from attribution.model import Match

_STRIP = (
    (re.compile(r"0x[0-9a-fA-F]+"), "<hex>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b"), "<uuid>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<ip>"),
    (re.compile(r"(?:/[\w.+@=-]+){2,}/?"), "<path>"),
    (re.compile(r"\b[\w-]*\d[\w-]*\.[\w.-]+\b"), "<name>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)
_PATH = re.compile(r"(?:/[\w.+@=-]+){2,}/?")
#: Fields that name the thing affected, best first.
_ENTITY_FIELDS = ("path", "checkpoint", "file", "dataset", "key", "module", "port", "pci")


def fingerprint(match: Match) -> str:
    """16 hex digits over class, signature and the text with numbers, paths, addresses, ranks and nodes taken out."""
    text = match.text[:400]
    for pattern, word in _STRIP:
        text = pattern.sub(word, text)
    return hashlib.sha256(f"{match.failure_class}|{match.signature}|{text.strip()}".encode()).hexdigest()[:16]


def entity(match: Match) -> str | None:
    """The thing affected (checkpoint path, data position, module, port), if the line names one."""
    for name in _ENTITY_FIELDS:
        if match.fields.get(name):
            return match.fields[name][:300]
    found = _PATH.search(match.text)
    return found.group()[:300] if found else None
