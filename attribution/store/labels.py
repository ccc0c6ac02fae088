"""Labels: what people, or what came of an attempt, say was true of it. Rules and classifiers are measured against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attribution.model import Action, Outcome, StoreError
from attribution.redact import redact
from attribution.store.lock import exclusive
from attribution.store.manifest import Manifest, write_whole
from attribution.store.rows import MAX_TEXT, table_of
from attribution.store.writer import write_table

if TYPE_CHECKING:
    from attribution.store.store import Store

#: Fields that may be labelled, with the values of those that have a closed set.
FIELDS: dict[str, frozenset[str]] = {
    "outcome": frozenset(Outcome),
    "class": frozenset(),
    "root_line": frozenset(),
    "culprit_node": frozenset(),
    "culprit_rank": frozenset(),
    "action": frozenset(Action),
    "note": frozenset(),
}


def write_labels(
    store: Store, attempt_id: str, values: Mapping[str, str], *, by: str, now_s: float, run_id: str
) -> None:
    """Add labels of one attempt as a commit unit of their own; see `Store.label`."""
    for field, value in values.items():
        known = FIELDS.get(field)
        if known is None:
            raise StoreError(f"{field!r} is no field of a label", where="labels", mend="use " + ", ".join(FIELDS))
        if known and value not in known:
            raise StoreError(f"{value!r} is no {field}", where="labels", mend="use " + ", ".join(sorted(known)))
    if not store.sql("select 1 from attempts where attempt_id = ?", [attempt_id]).height:
        raise StoreError(
            f"no attempt {attempt_id!r}",
            where=str(store.path),
            mend='see recovery query "select attempt_id from attempts"',
        )
    who = {"attempt_id": attempt_id, "run_id": run_id, "by": by, "labelled_at_s": now_s}
    rows = [{**who, "field": f, "value": redact(v[:MAX_TEXT])} for f, v in sorted(values.items())]
    name = f"{run_id}-labels"
    manifest = Manifest(
        name=name, run_id=run_id, engine="", rules="labels", created_s=now_s, files=(f"labels/{name}.parquet",),
        rows={"labels": len(rows)},
    )  # fmt: skip
    with exclusive(store.path):
        write_table(store.path / "labels" / f"{name}.parquet", table_of("labels", rows))
        write_whole(store.path / "runs" / f"{name}.json", manifest.to_json())
