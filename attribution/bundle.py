"""A bundle: one attempt's evidence in one small redacted file, from which anybody can have the same verdict again.

A bundle is a tar in zstandard: ``manifest.json`` (versions, digests), ``evidence.json`` (everything that diagnosis reads),
``document.json`` (the verdict), ``spans.json`` (cited lines with those around them). It is redacted before the verdict
is made, so that the verdict rests on what the bundle holds. Nothing of it is ever written to disk when it is read.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution import __version__
from attribution.model import Evidence, Line, Match, SourceError, to_plain
from attribution.redact import Level, redact
from attribution.report.context import around
from attribution.report.json import diagnosis_document

if TYPE_CHECKING:
    from attribution.analyze import Analyzer

SCHEMA = "recovery.bundle/1"
#: No honest bundle is larger; a small file that unpacks to much more is refused.
MOST_BYTES = 256 << 20
AROUND = 20
_MEMBERS = ("manifest.json", "evidence.json", "document.json", "spans.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What a bundle holds. `document` is a ``recovery.diagnosis/1``; `spans` maps ``path:line`` to numbered lines."""

    manifest: Mapping[str, Any]
    evidence: Evidence
    document: Mapping[str, Any]
    spans: Mapping[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A verdict made again. `differences` names the keys that are not as in the bundle; empty is bit for bit the same.

    `notes` tells what differs in what the verdict rests on (version, rules, policy).
    """

    document: Mapping[str, Any]
    differences: tuple[str, ...]
    notes: tuple[str, ...]


def redacted(evidence: Evidence, level: Level) -> Evidence:
    """The evidence without secrets."""

    def clean(text: str) -> str:
        return redact(text, level=level)

    def match(m: Match) -> Match:
        return replace(
            m,
            text=clean(m.text),
            fields={k: clean(v) for k, v in m.fields.items()},
            frames=tuple(map(clean, m.frames)),
        )

    def line(x: Line) -> Line:
        return replace(x, text=clean(x.text), raw=clean(x.raw))

    comment = clean(evidence.attempt.comment) if evidence.attempt.comment else None
    return replace(
        evidence,
        attempt=replace(evidence.attempt, comment=comment),
        matches=tuple(map(match, evidence.matches)),
        tail=tuple(map(line, evidence.tail)),
        notes=tuple(map(clean, evidence.notes)),
    )


def make(evidence: Evidence, analyzer: Analyzer, *, level: Level = Level.SECRETS) -> Bundle:
    """A bundle of one attempt; its logs are read again for the lines around the cited ones where they are still there."""
    evidence = redacted(evidence, level)
    document = _document(evidence, analyzer, level)
    digests = {path: digest for path in evidence.attempt.files if (digest := _digest(Path(path))) is not None}
    manifest = {
        "schema": SCHEMA,
        "attempt": str(evidence.attempt.key),
        "version": __version__,
        "redaction": str(level),
        "now_s": analyzer.options.now_s,
        "digests": to_plain(analyzer.digests),
        "files": digests,
    }
    return Bundle(
        manifest=manifest,
        evidence=evidence,
        document=document,
        spans={k: [f"{n}: {t}" for n, t in lines] for k, lines in around(document, AROUND, level=level).items()},
    )


def _document(evidence: Evidence, analyzer: Analyzer, level: Level) -> dict[str, Any]:
    result = analyzer.attempt(evidence)
    made = diagnosis_document(result.evidence.attempt, result.diagnosis, result.advice, level=level)
    document: dict[str, Any] = json.loads(json.dumps(made))
    return document


def replay(bundle: Bundle, analyzer: Analyzer) -> Replay:
    """Make the verdict again from the bundle's evidence.

    `analyzer` should be made with the bundle's ``now_s`` and with the same overlay of rules, if there was one.
    """
    document = _document(bundle.evidence, analyzer, Level(bundle.manifest["redaction"]))
    keys = list(dict.fromkeys([*bundle.document, *document]))
    differences = tuple(k for k in keys if json.dumps(bundle.document.get(k)) != json.dumps(document.get(k)))
    notes = []
    if bundle.manifest["version"] != __version__:
        notes.append(f"made by version {bundle.manifest['version']}, replayed by {__version__}")
    now, then = to_plain(analyzer.digests), bundle.manifest["digests"]
    notes += [f"{k} was {then.get(k)}, is {now[k]}" for k in now if now[k] != then.get(k)]
    return Replay(document=document, differences=differences, notes=tuple(notes))


def write(bundle: Bundle, path: Path) -> None:
    """Write a bundle; equal bundles give equal bytes."""
    import zstandard

    buffer = io.BytesIO()
    parts = (bundle.manifest, to_plain(bundle.evidence), bundle.document, bundle.spans)
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, part in zip(_MEMBERS, parts, strict=True):
            # json, not orjson: a loss that is NaN must come back as NaN.
            data = json.dumps(part, ensure_ascii=True, indent=1).encode()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    temporary = path.with_name(f".tmp-{path.name}")
    temporary.write_bytes(zstandard.ZstdCompressor(level=10).compress(buffer.getvalue()))
    temporary.replace(path)


def read(path: Path) -> Bundle:
    """Read a bundle.

    Raises:
        SourceError: it is no bundle, damaged, too large, or of a newer format.
    """
    import zstandard

    def wrong(what: str) -> SourceError:
        return SourceError(what, where=str(path), mend="bundles are made by recovery bundle")

    parts: dict[str, Any] = {}
    try:
        with path.open("rb") as f, zstandard.ZstdDecompressor().stream_reader(f) as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise wrong(f"unpacks to more than {MOST_BYTES >> 20} MiB")
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for member in tar:
                inside = tar.extractfile(member) if member.isreg() and member.name in _MEMBERS else None
                if inside is not None:
                    parts[member.name] = json.loads(inside.read())
        manifest, evidence, document, spans = (parts[name] for name in _MEMBERS)
        if manifest["schema"] != SCHEMA:
            raise wrong(f"is a {manifest['schema']}, not a {SCHEMA}")
        Level(manifest["redaction"])
        return Bundle(manifest=manifest, evidence=load(Evidence, evidence), document=dict(document), spans=dict(spans))
    except (OSError, zstandard.ZstdError, tarfile.TarError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise wrong(f"is no bundle that can be read: {error}") from error


def load(kind: Any, value: Any) -> Any:
    """The inverse of `to_plain` for the nouns of the model.

    Raises:
        TypeError, ValueError, KeyError: the value does not fit.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        inner = next(a for a in arguments if a is not types.NoneType)
        return None if value is None else load(inner, value)
    if origin is tuple:
        _want(list, value)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(load(arguments[0], v) for v in value)
        return tuple(load(a, v) for a, v in zip(arguments, value, strict=True))
    if origin is frozenset:
        _want(list, value)
        return frozenset(load(arguments[0], v) for v in value)
    if origin is dict:
        _want(dict, value)
        return {arguments[0](k): load(arguments[1], v) for k, v in value.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        _want(dict, value)
        hints = _hints(kind)
        return kind(**{f.name: load(hints[f.name], value[f.name]) for f in fields(kind) if f.name in value})
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    _want((int, float) if kind is float else kind, value)
    return value


def _want(kind: Any, value: Any) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.60} is not {kind}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as f:
            return hashlib.file_digest(f, "sha256").hexdigest()
    except OSError:
        return None
