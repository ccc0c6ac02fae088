"""The policy document: ordered rows, then guard rails. An operator reads it in a minute; this module reads it strictly."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from attribution import resources
from attribution.model import Action, Domain, Outcome, PolicyError, Status

#: Status from weakest to strongest.
LADDER = (Status.UNKNOWN, Status.HYPOTHESIS, Status.SUPPORTED, Status.ESTABLISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Conditions of a row; all that are given must hold. Empty tuples and None mean "whatever"."""

    classes: tuple[str, ...] = ()
    domain: tuple[Domain, ...] = ()
    outcome: tuple[Outcome, ...] = ()
    status_at_least: Status | None = None
    status_at_most: Status | None = None
    confidence_at_least: float | None = None
    same_root_without_progress_at_least: int | None = None
    same_entity_without_progress_at_least: int | None = None
    failures_without_progress_at_least: int | None = None
    restarts_at_least: int | None = None
    progressed: bool | None = None
    signals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row. `action` None takes the taxonomy's first-occurrence action of the class."""

    id: str
    when: When
    action: Action | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Guard rails. They can only weaken an action. Shares are percent of a partition's nodes."""

    max_restarts: int = 20
    max_same_root_without_progress: int = 2
    max_same_entity_without_progress: int = 2
    max_failures_without_progress: int = 4
    crash_loop_within_s: int = 600
    backoff_s: int = 60
    backoff_max_s: int = 3600
    exclusion_status_at_least: Status = Status.SUPPORTED
    exclusions_per_job: int = 4
    exclusions_per_hour: int = 16
    exclusions_per_partition: int = 8
    exclusions_percent: float = 5.0
    exclusion_hours: float = 24.0
    drain: bool = False
    advice_valid_s: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy document, validated."""

    name: str
    rows: tuple[Row, ...]
    limits: Limits
    tests: tuple[dict[str, Any], ...] = ()
    digest: str = ""
    path: str = ""


#: Limits that may have a fraction; the others count things or whole seconds.
_FRACTIONS = frozenset({"exclusions_percent", "exclusion_hours"})


def _is_number(value: Any) -> bool:
    """A finite number of 0 or more; an infinite limit would be none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


class _Reader:
    """Turns YAML into a Policy and says where it is wrong."""

    def __init__(self, path: str) -> None:
        self.path = path

    def fail(self, what: str, where: str, mend: str | None = None) -> PolicyError:
        return PolicyError(what, where=f"{self.path}: {where}", mend=mend)

    def member(self, kind: Any, value: Any, where: str) -> Any:
        try:
            return kind(str(value))
        except ValueError as error:
            raise self.fail(f"{value!r} is none of {', '.join(kind)}", where) from error

    def many(self, kind: Any, value: Any, where: str) -> tuple[Any, ...]:
        values = value if isinstance(value, list) else [value]
        return tuple(self.member(kind, v, where) for v in values)

    def when(self, raw: Any, where: str) -> When:
        if raw is None:
            return When()
        if not isinstance(raw, dict):
            raise self.fail("conditions are a mapping", where)
        out: dict[str, Any] = {}
        for key, value in raw.items():
            if key in ("class", "classes"):
                out["classes"] = tuple(map(str, value if isinstance(value, list) else [value]))
            elif key == "signals":
                out["signals"] = tuple(map(str, value if isinstance(value, list) else [value]))
            elif key == "domain":
                out["domain"] = self.many(Domain, value, where)
            elif key == "outcome":
                out["outcome"] = self.many(Outcome, value, where)
            elif key in ("status_at_least", "status_at_most"):
                out[key] = self.member(Status, value, where)
            elif key == "confidence_at_least" and _is_number(value) and value <= 1:
                out[key] = float(value)
            elif (key == "progressed" and isinstance(value, bool)) or (
                key.endswith("_at_least") and key in When.__dataclass_fields__ and isinstance(value, int)
            ):
                out[key] = value
            else:
                raise self.fail(
                    f"unknown condition {key!r} or value of the wrong kind", where, "see docs/how-to/write-a-policy.md"
                )
        return When(**out)

    def row(self, raw: Any, number: int) -> Row:
        where = f"rows[{number}]"
        if not isinstance(raw, dict) or "id" not in raw or "action" not in raw:
            raise self.fail("a row needs id and action", where)
        unknown = set(raw) - {"id", "when", "action", "reason"}
        if unknown:
            raise self.fail(f"unknown keys {', '.join(sorted(unknown))}", where)
        action = None if raw["action"] == "taxonomy" else self.member(Action, raw["action"], where)
        return Row(
            id=str(raw["id"]), when=self.when(raw.get("when"), where), action=action, reason=str(raw.get("reason", ""))
        )

    def limits(self, raw: Any) -> Limits:
        out: dict[str, Any] = {}
        if raw is not None and not isinstance(raw, dict):
            raise self.fail("limits are a mapping", "limits")
        for key, value in (raw or {}).items():
            if key not in Limits.__dataclass_fields__:
                raise self.fail(f"unknown limit {key!r}", "limits", "use " + ", ".join(Limits.__dataclass_fields__))
            if key == "exclusion_status_at_least":
                status = self.member(Status, value, "limits")
                if LADDER.index(status) < LADDER.index(Status.SUPPORTED):
                    raise self.fail("exclusion needs status supported or better, whatever a site wants", "limits")
                out[key] = status
            elif key == "drain":
                if not isinstance(value, bool):
                    raise self.fail(f"drain is {value!r}", "limits", "use true or false")
                out[key] = value
            elif not _is_number(value):
                raise self.fail(f"{key} is {value!r}", "limits", "use a number of 0 or more")
            elif key not in _FRACTIONS and not isinstance(value, int):
                raise self.fail(f"{key} is {value!r}", "limits", "use a whole number")
            else:
                out[key] = value
        return Limits(**out)


def parse_policy(data: bytes, path: str) -> Policy:
    """A policy from YAML text.

    Raises:
        PolicyError: the document is not of the form that rules/policy/default.yaml shows.
    """
    reader = _Reader(path)
    try:
        raw = yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise PolicyError(f"not readable as YAML: {error}", where=path) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("rows"), list) or not raw["rows"]:
        raise PolicyError("expected a mapping with policy, rows and limits", where=path)
    rows = tuple(reader.row(r, i) for i, r in enumerate(raw["rows"]))
    seen = [r.id for r in rows]
    if len(set(seen)) != len(seen):
        raise reader.fail("row ids repeat", "rows")
    if rows[-1].when != When():
        raise reader.fail("the last row must hold without conditions, so that every attempt gets an answer", "rows")
    tests = raw.get("tests") or []
    if not isinstance(tests, list) or not all(isinstance(t, dict) for t in tests):
        raise reader.fail("tests are a list of mappings", "tests", "see docs/how-to/write-a-policy.md")
    return Policy(
        name=str(raw.get("policy", Path(path).stem)),
        rows=rows,
        limits=reader.limits(raw.get("limits")),
        tests=tuple(tests),
        digest=hashlib.sha256(data).hexdigest(),
        path=path,
    )


def load_policy(path: Path | None = None) -> Policy:
    """The policy in `path`, or the packaged default.

    Raises:
        PolicyError: it cannot be read or is wrong.
    """
    path = path or resources.rules_dir() / "policy" / "default.yaml"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", where=str(path)) from error
    return parse_policy(data, str(path))
