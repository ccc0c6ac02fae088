"""Episodes, endings and detectors -> one Diagnosis per attempt.

`diagnose` is pure: the same evidence and the same digests give the same diagnosis, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attribution.causality import Causality
from attribution.detectors import Finding, run_detectors
from attribution.diagnose import certainty, culprit
from attribution.diagnose.fingerprint import entity, fingerprint
from attribution.diagnose.outcome import Ending, judge
from attribution.diagnose.root import most_telling
from attribution.episodes import build
from attribution.model import (
    Culprit,
    Diagnosis,
    Digests,
    Domain,
    Episode,
    Evidence,
    EvidenceItem,
    Match,
    Outcome,
    Source,
    Status,
)
from attribution.signatures import RuleSet

#: Evidence items in a diagnosis.
MOST_EVIDENCE = 24
MAX_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A diagnosis with the episodes that it rests on (the first is the answer, recovered ones stand last)."""

    diagnosis: Diagnosis
    episodes: tuple[Episode, ...]
    findings: tuple[Finding, ...] = ()


def cite(match: Match) -> EvidenceItem:
    """A match as an item of evidence, its text bounded."""
    return EvidenceItem(
        signature=match.signature,
        role=match.role,
        path=match.place.path,
        line=match.place.line,
        offset=match.place.offset,
        text=match.text[:MAX_TEXT],
        count=match.count,
        rank=match.place.rank,
        host=match.place.host,
        source=match.place.source,
    )


def diagnose(evidence: Evidence, rules: RuleSet, causality: Causality, digests: Digests) -> Verdict:
    """What happened to one attempt, where, and how sure that is."""
    findings = run_detectors(evidence)
    extra = tuple(f.match for f in findings if f.match is not None and f.match.failure_class is not None)
    seen = replace(evidence, matches=(*evidence.matches, *extra)) if extra else evidence
    episodes = build(seen, rules, causality)
    ending = _with_findings(judge(seen, episodes, causality), findings, episodes, causality)
    lead = _lead(ending, episodes)
    status = certainty.status_of(lead, episodes, ending.outcome, causality)
    confidence = certainty.confidence_of(status, ending.outcome)
    root = most_telling(lead) if lead is not None else ending.match
    diagnosis = Diagnosis(
        attempt=evidence.attempt.key,
        outcome=ending.outcome,
        failure_class=ending.failure_class,
        domain=_domain(ending.failure_class, rules),
        status=status,
        confidence=confidence,
        root=cite(root) if root is not None and ending.outcome is not Outcome.COMPLETED else None,
        culprit=_culprit(seen, lead, ending, findings),
        evidence=_evidence(lead, ending),
        runner_up=certainty.runner_up(lead, episodes, confidence),
        missing=_missing(seen, lead, status),
        because=(*ending.because, *(lead.because if lead else ())),
        signals=_signals(seen, findings, ending),
        fingerprint=fingerprint(root) if root is not None and lead is not None else None,
        entity=entity(root) if root is not None and lead is not None else None,
        fix=_fix(root, rules) if lead is not None else "",
        progress=evidence.progress,
        decided_by=ending.decided_by,
        digests=digests,
    )
    return Verdict(diagnosis=diagnosis, episodes=episodes, findings=findings)


def _with_findings(
    ending: Ending, findings: Sequence[Finding], episodes: Sequence[Episode], causality: Causality
) -> Ending:
    """A detector's outcome where the log's own words leave room for it."""
    for f in findings:
        if f.outcome is None:
            continue
        quiet = ending.outcome in (Outcome.UNKNOWN, Outcome.COMPLETED, Outcome.RUNNING)
        ended_by_limit = ending.failure_class in ("scheduler.time_limit", "scheduler.cancelled", "scheduler.signalled")
        if (quiet and f.over_quiet) or (ended_by_limit and f.over_limit):
            return Ending(
                outcome=f.outcome,
                failure_class=f.failure_class or ending.failure_class,
                match=f.match or ending.match,
                decided_by="detector",
                because=(*f.because, *ending.because),
            )
    return ending


def _lead(ending: Ending, episodes: Sequence[Episode]) -> Episode | None:
    if ending.outcome is Outcome.COMPLETED:
        return None
    for e in episodes:
        if not e.recovered and ending.match is not None and any(m is ending.match for m in e.initiating):
            return e
    if ending.decided_by == "detector" and ending.match is not None:
        return Episode(initiating=(ending.match,), because=ending.because)
    return None


def _fix(root: Match | None, rules: RuleSet) -> str:
    signature = rules.by_id.get(root.signature) if root is not None else None
    return signature.fix if signature is not None else ""


def _domain(failure_class: str | None, rules: RuleSet) -> Domain:
    known = rules.taxonomy.get(failure_class) if failure_class else None
    return known.domain if known is not None else Domain.UNKNOWN


def _culprit(evidence: Evidence, lead: Episode | None, ending: Ending, findings: Sequence[Finding]) -> Culprit:
    for f in findings:
        if ending.decided_by == "detector" and f.failure_class == ending.failure_class and f.culprit is not None:
            return f.culprit
    return culprit.find(evidence, lead, ending.failure_class)


def _evidence(lead: Episode | None, ending: Ending) -> tuple[EvidenceItem, ...]:
    if lead is None:
        return (cite(ending.match),) if ending.match is not None else ()
    picked: list[Match] = []
    for group, most in ((lead.initiating, 8), (lead.confirmation, 3), (lead.cascade, 8), (lead.teardown, 3)):
        seen: set[str] = set()
        for m in group:
            if m.signature not in seen or group is lead.initiating:
                seen.add(m.signature)
                picked.append(m)
            if len(seen) >= most or len(picked) >= MOST_EVIDENCE:
                break
    return tuple(cite(m) for m in picked[:MOST_EVIDENCE])


def _missing(evidence: Evidence, lead: Episode | None, status: Status) -> tuple[str, ...]:
    """What would make the answer surer, in words."""
    out = list(evidence.notes)
    if status in (Status.HYPOTHESIS, Status.UNKNOWN):
        if Source.KERNEL_LOG not in evidence.sources:
            nodes = ", ".join(evidence.attempt.nodes[:4])
            out.append(f"no kernel log for {nodes}" if nodes else "no kernel log")
        if Source.ACCOUNTING not in evidence.sources:
            out.append("no accounting record (sacct)")
    if evidence.progress.dialect is None and lead is None:
        out.append("no progress format recognised")
    size = evidence.attempt.n_ranks
    if size and lead is not None:
        spoken = {r.rank for r in evidence.ranks if r.last_line is not None}
        silent = [r for r in range(size) if r not in spoken] if spoken else []
        if silent and len(silent) < size:
            shown = ", ".join(map(str, silent[:8])) + (" ..." if len(silent) > 8 else "")
            out.append(f"evidence of ranks {shown} is missing")
    return tuple(out)


def _signals(evidence: Evidence, findings: Sequence[Finding], ending: Ending) -> tuple[str, ...]:
    out = {s for f in findings for s in f.signals}
    marks = {mark for m in evidence.matches for mark in m.marks}
    for mark in ("time_limit", "job_cancelled", "preempted", "node_fail", "sigterm_received"):
        if mark in marks:
            out.add(f"ended_by_{mark}" if mark != "sigterm_received" else mark)
    if evidence.progress.dialect is None:
        out.add("no_progress_format")
    if ending.outcome is Outcome.HUNG:
        out.add("hung")
    return tuple(sorted(out))
