"""Rules as data: YAML folders -> `RuleSet`; schema, lint, inline proofs, pages, coverage and correlations."""

from attribution.signatures.correlation import correlate, with_correlations
from attribution.signatures.findings import CODES, Finding, RulesError
from attribution.signatures.load import examine, load
from attribution.signatures.rules import (
    ClassInfo,
    Correlation,
    Example,
    Explains,
    Pattern,
    RuleSet,
    Signature,
    Table,
    TableRow,
)

__all__ = [
    "CODES",
    "ClassInfo",
    "Correlation",
    "Example",
    "Explains",
    "Finding",
    "Pattern",
    "RuleSet",
    "RulesError",
    "Signature",
    "Table",
    "TableRow",
    "correlate",
    "examine",
    "load",
    "with_correlations",
]
