"""YAML documents -> one validated plain document (the form that `build` reads and the cache holds)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import orjson

from attribution.marks import MARKS
from attribution.model import Action, Domain
from attribution.resources import rules_dir
from attribution.signatures.findings import Finding
from attribution.signatures.positions import Located, parse
from attribution.signatures.relax import PatternError, relax

Plain = dict[str, Any]


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    """Validator of one kind of document out of the published schema."""
    schema = orjson.loads((rules_dir() / "schema.json").read_bytes())
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})


def _kind(document: object) -> str | None:
    if not isinstance(document, dict):
        return None
    for key, kind in (("signatures", "signatures"), ("table", "table"), ("correlations", "correlations")):
        if key in document:
            return kind
    return None


def problems(doc: Located, kind: str, value: object = None, at: str = "") -> list[Finding]:
    """What the schema has against a document, or against `value`, its part at the dotted path `at`."""
    out: list[Finding] = []
    who = value.get("id") if isinstance(value, dict) else None
    for error in _validator(kind).iter_errors(doc.value if value is None else value):
        path = ".".join([*([at] if at else []), *map(str, error.absolute_path)])
        what = f"{path.removeprefix(at).lstrip('.') or 'document'}: {_short(error.message)}"
        name = who if isinstance(who, str) else None
        out.append(Finding(code="R001", what=what, path=doc.path, line=doc.line(path), signature=name))
    return out


class _Merger:
    """State of one merge: what earlier folders said, and what is wrong so far."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.signatures: dict[str, Plain] = {}
        self.layer_of: dict[str, int] = {}
        self.tables: dict[str, Plain] = {}
        self.taxonomy: dict[str, Plain] = {}
        self.correlations: dict[str, Plain] = {}
        self.lines: dict[str, dict[str, int]] = {}
        self.switches: list[tuple[str, str, str, int]] = []

    def report(self, code: str, what: str, doc: Located, where: str, signature: str | None = None) -> None:
        """Note a finding at a field of a document."""
        self.findings.append(Finding(code=code, what=what, path=doc.path, line=doc.line(where), signature=signature))

    def take(self, layer: int, doc: Located) -> None:
        """Merge one document."""
        name = Path(doc.path).name
        if name == "taxonomy.yaml":
            self._taxonomy(doc)
        elif name == "overrides.yaml":
            if self._valid(doc, "overrides"):
                for what in ("disable", "shadow"):
                    for i, rule in enumerate(doc.value.get(what) or ()):
                        self.switches.append((what, rule, doc.path, doc.line(f"{what}.{i}")))
        else:
            kind = _kind(doc.value)
            if kind is None:
                self.report("R001", "neither `signatures`, `table` nor `correlations` stands in this file", doc, "")
            elif kind == "signatures":
                self._signatures(layer, doc)
            elif self._valid(doc, kind):
                if kind == "table":
                    self._table(doc)
                else:
                    for i, entry in enumerate(doc.value["correlations"]):
                        self.correlations[entry["id"]] = entry | {
                            "path": doc.path,
                            "line": doc.line(f"correlations.{i}"),
                        }

    def _valid(self, doc: Located, kind: str, value: object = None, at: str = "") -> bool:
        found = problems(doc, kind, value, at)
        self.findings += found
        return not found

    def _taxonomy(self, doc: Located) -> None:
        if not isinstance(doc.value, dict):
            self.report("R001", "the taxonomy is a mapping of families", doc, "")
            return
        for family, causes in doc.value.items():
            for cause, info in (causes or {}).items():
                where = f"{family}.{cause}"
                try:
                    self.taxonomy[where] = {
                        "domain": Domain(info["domain"]).value,
                        "action": Action(info["action"]).value,
                        "means": str(info["means"]),
                        "alias": [str(a) for a in info.get("alias") or ()],
                    }
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    self.report("R001", f"class {where}: needs domain, action and means ({error})", doc, where)

    def _table(self, doc: Located) -> None:
        name = doc.value["table"]
        table = self.tables.setdefault(name, {"rows": {}})
        table |= {"source": doc.value["source"], "date": doc.value["date"], "path": doc.path}
        for key, row in doc.value["rows"].items():
            table["rows"][str(key)] = row | {"line": doc.line(f"rows.{key}"), "path": doc.path}

    def _signatures(self, layer: int, doc: Located) -> None:
        entries = doc.value["signatures"] or []
        if not isinstance(entries, list) or set(doc.value) != {"signatures"}:
            self._valid(doc, "signatures")
            return
        for i, entry in enumerate(entries):
            at = f"signatures.{i}"
            if not self._valid(doc, "signature", entry, at) or not isinstance(entry, dict):
                continue
            rule = entry["id"]
            if self.layer_of.get(rule) == layer:
                other = self.signatures[rule]
                self.report("R005", f"also at {other['path']}:{other['line']}", doc, f"{at}.id", rule)
                continue
            relaxed = self._patterns(doc, at, entry)
            for j, mark in enumerate(entry.get("marks") or ()):
                if mark not in MARKS:
                    self.report("R003", f"mark {mark!r}", doc, f"{at}.marks.{j}", rule)
            self.layer_of[rule] = layer
            self.signatures[rule] = entry | {"path": doc.path, "line": doc.line(at), "relaxed": relaxed}
            prefix = f"{at}."
            self.lines[rule] = {k[len(prefix) :]: v for k, v in doc.lines.items() if k.startswith(prefix)}

    def _patterns(self, doc: Located, at: str, entry: Plain) -> list[Plain]:
        """Check every pattern; the relaxed form of those of `any`, so that a cached start computes none."""
        match = entry["match"]
        out: list[Plain] = []
        for name in ("any", "unless", "frames"):
            for j, pattern in enumerate(match.get(name) or ()):
                try:
                    r = relax(pattern, ignore_case=bool(match.get("ignore_case")))
                except PatternError as error:
                    self.report("R004", str(error), doc, f"{at}.match.{name}.{j}", entry["id"])
                    continue
                if name != "any":
                    continue
                if r.empty:
                    self.report("R004", "matches any text", doc, f"{at}.match.any.{j}", entry["id"])
                out.append(
                    {
                        "expression": r.expression,
                        "literals": [x.decode("latin-1") for x in r.literals],
                        "hazards": list(r.hazards),
                        "repeats": r.repeats,
                        "ignore_case": r.ignore_case,
                    }
                )
        return out

    def finish(self) -> Plain:
        """Checks that need everything, then the merged document."""
        for rule, entry in self.signatures.items():
            for what, name, where in _classes_of(entry):
                if not _class_known(name, self.taxonomy):
                    self._late("R002", f"{what} {name!r}", entry, rule, where)
            table = entry.get("table")
            if table is not None and table["name"] not in self.tables:
                self._late("R006", f"table {table['name']!r}", entry, rule, "table")
        self._tables_and_correlations()
        for what, rule, path, line in self.switches:
            if rule not in self.signatures:
                self.findings.append(Finding(code="R023", what=f"{what}: {rule!r}", path=path, line=line))
            elif what == "disable":
                del self.signatures[rule]
            else:
                self.signatures[rule]["shadow"] = True
        plain: Plain = {
            "signatures": [self.signatures[k] for k in sorted(self.signatures)],
            "tables": {k: self.tables[k] for k in sorted(self.tables)},
            "taxonomy": self.taxonomy,
            "correlations": [self.correlations[k] for k in sorted(self.correlations)],
        }
        plain["digest"] = _digest(plain)
        return plain

    def _late(self, code: str, what: str, entry: Plain, rule: str, where: str) -> None:
        lines = self.lines[rule]
        while where and where not in lines:
            where = where.rpartition(".")[0]
        line = lines[where] if where in lines else int(entry["line"])
        self.findings.append(Finding(code=code, what=what, path=entry["path"], line=line, signature=rule))

    def _tables_and_correlations(self) -> None:
        for table in self.tables.values():
            for key, row in table["rows"].items():
                name = row.get("class")
                if name is not None and name not in self.taxonomy:
                    what = f"row {key}: class {name!r}"
                    self.findings.append(Finding(code="R002", what=what, path=row["path"], line=row["line"]))
        for rule, entry in self.correlations.items():
            wrong = [] if entry["class"] in self.taxonomy else [("R002", f"class {entry['class']!r}")]
            named = (*entry["of"], *entry.get("then", ()))
            missing = [n for n in named if n not in self.signatures and not _class_known(n, self.taxonomy)]
            wrong += [("R024", repr(name)) for name in missing]
            for code, what in wrong:
                finding = Finding(code=code, what=what, path=entry["path"], line=entry["line"], signature=rule)
                self.findings.append(finding)


def _short(message: str) -> str:
    return message if len(message) <= 160 else f"{message[:120]} ... {message[-36:]}"


def _classes_of(entry: Plain) -> Iterator[tuple[str, str, str]]:
    if entry.get("class") is not None:
        yield "class", entry["class"], "class"
    for i, explains in enumerate(entry.get("explains") or ()):
        for j, name in enumerate(explains["classes"]):
            yield "explains", name, f"explains.{i}.classes.{j}"


def _class_known(name: str, taxonomy: Plain) -> bool:
    if name.endswith(".*"):
        return any(c.startswith(name[:-1]) for c in taxonomy)
    return name in taxonomy


#: Parts of a document that can change no verdict; the digest leaves them out.
_SILENT = frozenset(
    {
        "path",
        "line",
        "relaxed",
        "allow",
        "overlaps",
        "title",
        "limits",
        "fix",
        "references",
        "examples",
        "counterexamples",
        "means",
    }
)


def _verdict_content(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _verdict_content(v) for k, v in sorted(value.items()) if k not in _SILENT}
    if isinstance(value, list):
        return [_verdict_content(v) for v in value]
    return value


def _digest(plain: Plain) -> str:
    return hashlib.sha256(orjson.dumps(_verdict_content(plain))).hexdigest()


def merge(files: Sequence[tuple[int, Path, bytes]]) -> tuple[Plain, dict[str, dict[str, int]], list[Finding]]:
    """Merge (layer, path, bytes) in the order given.

    Returns:
        The merged document without what is wrong, the line of every field of every signature, and the findings.
    """
    merger = _Merger()
    for layer, path, data in files:
        doc, findings = parse(data, path)
        merger.findings += findings
        if doc is not None:
            merger.take(layer, doc)
    plain = merger.finish()
    bad = {f.signature for f in merger.findings}
    for part in ("signatures", "correlations"):
        plain[part] = [s for s in plain[part] if s["id"] not in bad]
    return plain, merger.lines, merger.findings
