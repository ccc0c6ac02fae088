"""Which class may be the consequence of which: `rules/causality.yaml`, and each signature's own ``explains``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import yaml

from attribution.model import RuleError


def class_matches(pattern: str, failure_class: str) -> bool:
    """True where `pattern` (``family.cause``, ``family.*`` or ``*``) covers `failure_class`."""
    return (
        pattern == "*"
        or pattern == failure_class
        or (pattern.endswith(".*") and failure_class.startswith(pattern[:-1]))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`cause` classes explain `effects` classes. `order` is ``before`` or ``any``; `within_s` None means no bound."""

    cause: tuple[str, ...]
    effects: tuple[str, ...]
    order: str = "any"
    within_s: float | None = None

    def covers(self, cause: str, effect: str) -> bool:
        """True where this entry lets a match of class `cause` explain one of class `effect`."""
        return any(class_matches(p, cause) for p in self.cause) and any(class_matches(p, effect) for p in self.effects)


@dataclass(frozen=True, slots=True, kw_only=True)
class Causality:
    """The class-level relation and the list of classes that are only symptoms."""

    explanations: tuple[Explanation, ...] = ()
    symptoms: tuple[str, ...] = ()
    digest: str = ""
    _cache: dict[tuple[str, str], Explanation | None] = field(default_factory=dict, repr=False, compare=False)

    def find(self, cause: str, effect: str) -> Explanation | None:
        """The first entry that lets `cause` explain `effect`; an equal class never explains itself."""
        key = (cause, effect)
        if key not in self._cache:
            hit = None if cause == effect else next((e for e in self.explanations if e.covers(cause, effect)), None)
            self._cache[key] = hit
        return self._cache[key]

    def is_symptom(self, failure_class: str | None) -> bool:
        """True for a class that says that something ended and not why."""
        return failure_class is None or any(class_matches(p, failure_class) for p in self.symptoms)


def _entry(raw: object, where: str) -> Explanation:
    if not isinstance(raw, dict) or not isinstance(raw.get("cause"), list) or not isinstance(raw.get("effects"), list):
        raise RuleError("an entry of explains needs the lists cause and effects", where=where)
    order = str(raw.get("order", "any"))
    if order not in ("any", "before"):
        raise RuleError(f"order is {order!r}", where=where, mend="use any or before")
    within = raw.get("within_s")
    return Explanation(
        cause=tuple(map(str, raw["cause"])),
        effects=tuple(map(str, raw["effects"])),
        order=order,
        within_s=float(within) if within is not None else None,
    )


def load(folders: Sequence[Path]) -> Causality:
    """Read ``causality.yaml`` of each folder that has one; a later folder's entries come first and so win.

    Raises:
        RuleError: a document is not of the form that the packaged file shows.
    """
    explanations: list[Explanation] = []
    symptoms: list[str] = []
    digest = hashlib.sha256()
    for folder in folders:
        path = folder / "causality.yaml"
        if not path.is_file():
            continue
        data = path.read_bytes()
        digest.update(data)
        try:
            raw = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError as error:
            raise RuleError(f"not readable as YAML: {error}", where=str(path)) from error
        if not isinstance(raw, dict):
            raise RuleError("expected a mapping with explains and symptoms", where=str(path))
        explanations = [
            _entry(e, f"{path}: explains[{i}]") for i, e in enumerate(raw.get("explains", []))
        ] + explanations
        symptoms.extend(str(s) for s in raw.get("symptoms", []))
    return Causality(explanations=tuple(explanations), symptoms=tuple(symptoms), digest=digest.hexdigest())


@lru_cache(maxsize=4)
def packaged(folders: tuple[Path, ...]) -> Causality:
    """`load`, remembered per tuple of folders."""
    return load(folders)
