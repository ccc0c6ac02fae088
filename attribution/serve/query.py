"""Questions of the web view to a store: filters in, attempts out. Values are always parameters of the SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from attribution.model import Action, ConfigError, Domain, Outcome

if TYPE_CHECKING:
    from attribution.store import Store

MOST = 500
MOST_TEXT = 200
CHOICES: dict[str, tuple[str, ...]] = {"outcome": tuple(Outcome), "domain": tuple(Domain), "action": tuple(Action)}
COLUMNS = (
    "attempt_id", "job_id", "outcome", "class", "domain", "status", "confidence", "culprit_nodes", "action",
    "root_path", "root_line", "root_text", "end_time_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is asked for. `q` is text searched in id, class, root line and node names, letter case aside."""

    q: str = ""
    outcome: str = ""
    domain: str = ""
    action: str = ""
    limit: int = 100
    offset: int = 0

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Filter:
        """From the parameters of an address; others are not looked at.

        Raises:
            ConfigError: a value is none that the parameter has.
        """
        for name, values in CHOICES.items():
            if given.get(name, "") not in ("", *values):
                raise ConfigError(
                    f"{given[name]!r:.80} is none of its values", where=name, mend="use " + ", ".join(values)
                )
        q = given.get("q", "")
        if len(q) > MOST_TEXT or "\x00" in q:
            raise ConfigError(f"text of 0 to {MOST_TEXT} characters is asked for", where="q")
        return cls(
            q=q,
            outcome=given.get("outcome", ""),
            domain=given.get("domain", ""),
            action=given.get("action", ""),
            limit=_number(given, "limit", 100, 1, MOST),
            offset=_number(given, "offset", 0, 0, 10**9),
        )

    def address(self, offset: int) -> str:
        """Parameters of the same question at another offset."""
        pairs = {"q": self.q, "outcome": self.outcome, "domain": self.domain, "action": self.action}
        return urlencode({**{k: v for k, v in pairs.items() if v}, "limit": self.limit, "offset": offset})


def _number(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name, "") or str(default)
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else -1
    if not least <= value <= most:
        raise ConfigError(f"{text!r:.40} is no whole number from {least} to {most}", where=name)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One page of attempts, the latest first, as JSON values by `COLUMNS`; `total` counts all that fit."""

    total: int
    attempts: tuple[dict[str, Any], ...]


def find(store: Store, asked: Filter) -> Found:
    """Attempts that fit."""
    where, values = ["true"], []
    for column, value in (("d.outcome", asked.outcome), ("d.domain", asked.domain), ("v.action", asked.action)):
        if value:
            where.append(f"{column} = ?")
            values.append(value)
    if asked.q:
        text = "concat_ws(' ', d.attempt_id, d.class, d.root_text, array_to_string(d.culprit_nodes, ' '))"
        where.append(f"contains(lower({text}), lower(?))")
        values.append(asked.q)
    # Logs of one name in several folders may share an id; an attempt is listed once.
    owner = {"job_id": "a", "end_time_s": "a", "action": "v"}
    columns = ", ".join(f'{owner.get(c, "d")}."{c}"' for c in COLUMNS)
    source = (
        f"select {columns} from diagnoses d join attempts a on a.attempt_id = d.attempt_id"
        f" left join advice v on v.attempt_id = d.attempt_id where {' and '.join(where)}"
        " qualify row_number() over (partition by d.attempt_id order by d.root_path, d.root_line, v.action) = 1"
    )
    frame = store.sql(
        f"select *, count(*) over () as total from ({source})"
        f" order by end_time_s desc nulls last, attempt_id limit {asked.limit} offset {asked.offset}",
        values,
    )
    if frame.height == 0 and asked.offset:
        return Found(total=int(store.sql(f"select count(*) from ({source})", values).item()), attempts=())
    total = int(frame["total"][0]) if frame.height else 0
    return Found(total=total, attempts=tuple(frame.drop("total").to_dicts()))
