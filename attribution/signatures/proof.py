"""Proof by example: every signature must recognise its positives, with fields, and none of its counterexamples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attribution.model import Line, Match, Source
from attribution.signatures.findings import Finding
from attribution.signatures.rules import MAX_MESSAGE, Example, RuleSet, Signature
from attribution.sources.prefix import LineParser

_ORDER = (Source.JOB_LOG, Source.KERNEL_LOG, Source.SLURM_LOG, Source.ACCOUNTING)


def source_of(signature: Signature, example: Example) -> Source:
    """Kind of log that an example is from: its own word, else the first that the signature reads."""
    return example.source or next(s for s in _ORDER if s in signature.sources)


def parsed(text: str, source: Source, path: str = "example.log") -> tuple[Line, ...]:
    """The message lines of a printed line, prefixes off as the scanner takes them off."""
    parser = LineParser(path, source)
    out: list[Line] = []
    for number, piece in enumerate(text.split("\n"), start=1):
        out.extend(parser.parse(piece.encode("utf-8", "replace"), number, 0))
    return tuple(out)


def recognised(rules: RuleSet, signature: Signature, example: Example) -> list[Match]:
    """Matches of one signature in an example, table rows applied."""
    source = source_of(signature, example)
    if source not in signature.sources:
        return []
    out = []
    for line in parsed(example.text, source):
        fields = signature.find(line.text[:MAX_MESSAGE], example.frames)
        if fields is not None:
            out.append(rules.match(signature, line, fields, example.frames))
    return out


def prove(rules: RuleSet, signature: Signature) -> Iterator[Finding]:
    """Findings of one signature's examples and counterexamples."""
    for i, example in enumerate(signature.examples):
        at = f"examples.{i}"
        matches = recognised(rules, signature, example)
        if not matches:
            what = f"not recognised: {_shown(signature, example)}"
            yield _finding(rules, signature, "R010", what, at)
            continue
        got = matches[0].fields
        wrong = [f"{k}={got.get(k)!r}, not {v!r}" for k, v in sorted(example.fields.items()) if got.get(k) != v]
        if wrong:
            yield _finding(rules, signature, "R011", "; ".join(wrong), at)
    for i, example in enumerate(signature.counterexamples):
        if recognised(rules, signature, example):
            what = f"recognised: {_shown(signature, example)}"
            yield _finding(rules, signature, "R012", what, f"counterexamples.{i}")


def _shown(signature: Signature, example: Example) -> str:
    lines = parsed(example.text, source_of(signature, example))
    return " | ".join(repr(x.text[:160]) for x in lines) or repr(example.text[:160])


def _finding(rules: RuleSet, signature: Signature, code: str, what: str, at: str) -> Finding:
    line = rules.line_of(signature, at)
    return Finding(code=code, what=what, path=signature.path, line=line, signature=signature.id)


def prove_all(rules: RuleSet, only: Sequence[str] = ()) -> list[Finding]:
    """Findings of all signatures, or of those whose id is or begins with one of `only`."""
    out: list[Finding] = []
    for signature in rules.signatures:
        if not only or any(signature.id == x or signature.id.startswith(x.rstrip("*.") + ".") for x in only):
            out.extend(prove(rules, signature))
    return out
