"""Where results go and in which form."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from attribution.model import ConfigError


class Form(StrEnum):
    """Forms of output."""

    RICH = "rich"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A form and a place; None is standard output."""

    form: Form
    path: Path | None = None


_BY_SUFFIX = {".json": Form.JSON, ".jsonl": Form.JSONL, ".csv": Form.CSV, ".parquet": Form.PARQUET}

#: Columns of the flat forms, in order.
COLUMNS = (
    "attempt_id", "job_id", "restart", "outcome", "class", "family", "domain", "status", "confidence", "root_path",
    "root_line", "root_text", "culprit_node", "culprit_rank", "action", "exclude_nodes", "reason", "last_step",
    "last_checkpoint_step", "files",
)  # fmt: skip


def choose(name: str, path: Path | None) -> Format:
    """The format asked for; ``auto`` takes the suffix of `path`, rich on a terminal and JSON lines in a pipe.

    Raises:
        ConfigError: an unknown name, or Parquet without a file to write.
    """
    if name == "auto":
        if path is not None:
            form = _BY_SUFFIX.get(path.suffix, Form.JSONL)
        else:
            form = Form.RICH if sys.stdout.isatty() else Form.JSONL
    else:
        try:
            form = Form(name)
        except ValueError as error:
            raise ConfigError(f"unknown format {name!r}", where="--format", mend="use " + ", ".join(Form)) from error
    if form is Form.PARQUET and path is None:
        raise ConfigError("Parquet is binary and wants a file", where="--format parquet", mend="add --output FILE")
    return Format(form=form, path=path)


def row(attempt_id: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """A diagnosis document as one flat row of `COLUMNS`; lists are joined with blanks."""
    root, culprit = document.get("root") or {}, document.get("culprit") or {}
    advice, progress = document.get("advice") or {}, document.get("progress") or {}

    def joined(value: Any) -> str | None:
        if value is None:
            return None
        return " ".join(map(str, value)) if isinstance(value, list) else str(value)

    return {
        "attempt_id": attempt_id,
        "job_id": document["attempt"]["job_id"],
        "restart": document["attempt"]["restart"],
        **{k: document.get(k) for k in ("outcome", "class", "family", "domain", "status", "confidence")},
        "root_path": root.get("path"),
        "root_line": root.get("line"),
        "root_text": root.get("text"),
        "culprit_node": joined(culprit.get("node")),
        "culprit_rank": joined(culprit.get("rank")),
        "action": advice.get("action"),
        "exclude_nodes": joined(advice.get("exclude_nodes") or []),
        "reason": advice.get("reason"),
        "last_step": progress.get("last_step"),
        "last_checkpoint_step": progress.get("last_checkpoint_step"),
        "files": joined(document["attempt"]["files"]),
    }


class Writer:
    """Writes documents in one of the machine-readable forms as they come; use as a context manager."""

    def __init__(self, output: Format) -> None:
        self._output = output
        self._stream: IO[str] | None = None
        self._rows: list[dict[str, Any]] = []
        self._first = True

    def __enter__(self) -> Writer:
        if self._output.form is not Form.PARQUET:
            path = self._output.path
            self._stream = path.open("w", encoding="utf-8") if path is not None else sys.stdout
        if self._output.form is Form.JSON:
            self._text("[")
        elif self._output.form is Form.CSV:
            self._text(_csv_line(COLUMNS))
        return self

    def __exit__(self, *_: object) -> None:
        if self._output.form is Form.JSON:
            self._text("\n]\n")
        if self._output.form is Form.PARQUET:
            self._parquet()
        if self._stream is not None:
            self._stream.flush()
            if self._stream is not sys.stdout:
                self._stream.close()

    def add(self, attempt_id: str, document: Mapping[str, Any]) -> None:
        """Write one document."""
        import orjson

        if self._output.form is Form.JSONL:
            self._text(orjson.dumps(document).decode() + "\n")
        elif self._output.form is Form.JSON:
            self._text(("\n" if self._first else ",\n") + orjson.dumps(document).decode())
            self._first = False
        elif self._output.form is Form.CSV:
            flat = row(attempt_id, document)
            self._text(_csv_line([flat[c] for c in COLUMNS]))
        else:
            self._rows.append(row(attempt_id, document))

    def _text(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)

    def _parquet(self) -> None:
        import polars as pl

        if self._output.path is not None:
            numbers = {
                "restart": pl.Int64,
                "root_line": pl.Int64,
                "last_step": pl.Int64,
                "last_checkpoint_step": pl.Int64,
            }
            schema = {c: numbers.get(c, pl.Float64 if c == "confidence" else pl.String) for c in COLUMNS}
            pl.DataFrame(self._rows, schema=schema).write_parquet(self._output.path)


def _csv_line(values: Sequence[Any]) -> str:
    """One CSV line. A cell that a spreadsheet would run as a formula is kept as text by a leading apostrophe."""
    buffer = io.StringIO()
    safe = [f"'{v}" if isinstance(v, str) and v[:1] in ("=", "+", "@", "\t") else v for v in values]
    csv.writer(buffer, lineterminator="\n").writerow(safe)
    return buffer.getvalue()
