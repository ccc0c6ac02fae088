"""What is wrong with rules, with file and line, all of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribution.model import RuleError

#: Every code that the loader and `recovery rules check` may report: slug, and what to do about it.
CODES: dict[str, tuple[str, str]] = {
    "R001": ("schema", "see docs/how-to/write-a-rule.md for the fields"),
    "R002": ("unknown-class", "take a class from rules/taxonomy.yaml, or add one there"),
    "R003": ("unknown-mark", "take a mark from attribution.marks.MARKS"),
    "R004": ("bad-pattern", "patterns are Python regular expressions without look-around and back-references"),
    "R005": ("duplicate-id", "ids are unique within one folder of rules"),
    "R006": ("unknown-table", "add rules/tables/NAME.yaml or correct the name"),
    "R007": ("unreadable", "the file must be YAML"),
    "R010": ("positive-missed", "mend the pattern or the example"),
    "R011": ("wrong-fields", "the captured fields must equal the example's"),
    "R012": ("counterexample-hit", "narrow the pattern, or add the text to `unless`"),
    "R013": ("alternative-unexercised", "add an example in which this pattern is found, or remove the pattern"),
    "R014": ("no-prefilter", "give the pattern four fixed characters in a row"),
    "R015": ("unsafe-pattern", "no look-around, back-reference or nested unbounded repeat"),
    "R016": ("overlap", "give one of the two a higher specificity, or name the other in `overlaps`"),
    "R017": ("explains-loop", "two roots must not explain each other"),
    "R018": ("fires-on-healthy", "narrow the pattern, or give it a role that accuses nobody"),
    "R019": ("no-counterexample", "add a line that looks alike and must not match"),
    "R020": ("table-row-unreachable", "the pattern that captures the table's key never captures this value"),
    "R022": ("engine-missed", "the prefilter engine does not see a text that the pattern matches: report a bug"),
    "R023": ("unknown-override", "the overlay switches an id that no rule has"),
    "R024": ("unknown-correlation", "a correlation names a signature or class that does not exist"),
    "R025": ("wrong-speaker", "another signature is more specific on this line: change a specificity"),
    "R026": ("slow-pattern", "fewer `.*` in a row: anchor it, bound the repeats, or name what stands between"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing wrong with one place of a rule file. `line` is 1-based; `signature` is None for file-level findings."""

    code: str
    what: str
    path: str
    line: int = 1
    signature: str | None = None

    @property
    def slug(self) -> str:
        """Readable name of the code."""
        return CODES[self.code][0]

    @property
    def mend(self) -> str:
        """What to do about it."""
        return CODES[self.code][1]

    @property
    def order(self) -> tuple[str, int, str, str]:
        """Sort key of reports."""
        return (self.path, self.line, self.code, self.what)

    def __str__(self) -> str:
        about = f" {self.signature}:" if self.signature else ""
        return f"{self.path}:{self.line}: {self.code} {self.slug}:{about} {self.what}"


class RulesError(RuleError):
    """Rule documents that cannot be used; `findings` holds everything that is wrong with them."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(sorted(findings, key=lambda f: f.order))
        first = self.findings[0]
        more = "" if len(self.findings) == 1 else "\n" + "\n".join(str(f) for f in self.findings[1:])
        super().__init__(
            f"{first.code} {first.slug}: {first.signature or ''} {first.what}{more}",
            where=f"{first.path}:{first.line}",
            mend=first.mend,
        )
