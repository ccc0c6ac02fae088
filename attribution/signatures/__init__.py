"""Rules as data: YAML folders -> `RuleSet`; schema, lint, inline proofs, pages, coverage and correlations."""

from attribution.signatures.findings import CODES, Finding, RulesError
from attribution.signatures.load import examine, load
from attribution.signatures.rules import (
    ClassInfo,
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
    "Example",
    "Explains",
    "Finding",
    "Pattern",
    "RuleSet",
    "RulesError",
    "Signature",
    "Table",
    "TableRow",
    "examine",
    "load",
]
