"""All that is known of one attempt, in one object: what analysis gives, and what the store and reports take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attribution.diagnose import Verdict
from attribution.model import Advice, AttemptKey, Diagnosis, Episode, Evidence
from attribution.policy.past import Record

if TYPE_CHECKING:
    from attribution.templates import Masked


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Evidence, verdict and advice of one attempt; `masked` holds its lines for mining, where lines are mined."""

    evidence: Evidence
    verdict: Verdict
    advice: Advice
    masked: Mapping[str, Masked] | None = None

    @property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis."""
        return self.verdict.diagnosis

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Episodes, the one that the diagnosis rests on first."""
        return self.verdict.episodes

    def called(self, key: AttemptKey) -> Result:
        """The same result under another key."""
        attempt = replace(self.evidence.attempt, key=key)
        return replace(
            self,
            evidence=replace(self.evidence, attempt=attempt),
            verdict=replace(self.verdict, diagnosis=replace(self.diagnosis, attempt=key)),
            advice=replace(self.advice, attempt=key, commands=()),
        )

    def record(self) -> Record:
        """As policy sees it in the history of a later attempt."""
        attempt = self.evidence.attempt
        return Record(attempt_id=str(attempt.key), attempt=attempt, diagnosis=self.diagnosis, action=self.advice.action)
