"""From paths to results: the whole chain for every attempt found, one job at a time.

    for result in analyze(["logs/"]):
        print(result.diagnosis.failure_class, result.advice.action)

An `Analyzer` holds what is loaded once (rules, engine, policy); it is cheap per job and not thread-safe. Work is spread
over processes by `attribution.workers`, which calls the same `Analyzer.job`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from attribution import __version__, causality, resources
from attribution.attempts import assemble
from attribution.diagnose import diagnose
from attribution.match import Matcher
from attribution.model import Advice, Attempt, Diagnosis, Digests, Evidence, Match, Source
from attribution.policy import Fleet, History, Policy, advise, load_policy
from attribution.policy.advise import EMPTY_FLEET, EMPTY_HISTORY
from attribution.policy.past import Record, before
from attribution.result import Result
from attribution.scan import FileScan, Scanner, best
from attribution.signatures import RuleSet, with_correlations
from attribution.signatures import load as load_rules
from attribution.sources.accounting import AccountingRecord, parse_accounting
from attribution.sources.discover import Discovery, JobFiles, discover
from attribution.sources.prefix import LineParser

if TYPE_CHECKING:
    from attribution.templates import Masked


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What shapes an analysis. Two runs with equal options over equal files give equal results."""

    patterns: tuple[str, ...] = ()
    each: bool = False
    kernel_logs: tuple[str, ...] = ()
    accounting: tuple[str, ...] = ()
    rules: tuple[Path, ...] = ()
    policy: Path | None = None
    engine: str = "auto"
    mine: bool = True
    cluster: str | None = None
    now_s: float = 0.0


@dataclass(slots=True)
class Analyzer:
    """The loaded chain. `job` turns the files of one job into results, one per attempt."""

    options: Options
    ruleset: RuleSet = field(init=False)
    relation: causality.Causality = field(init=False)
    policy: Policy = field(init=False)
    digests: Digests = field(init=False)
    scanner: Scanner = field(init=False)
    _accounting: tuple[AccountingRecord, ...] = field(init=False)
    _kernel: tuple[FileScan, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        folders = (resources.rules_dir(), *self.options.rules)
        self.ruleset = load_rules(folders)
        self.relation = causality.load(folders)
        self.policy = load_policy(self.options.policy)
        rules = hashlib.sha256(f"{self.ruleset.digest} {self.relation.digest}".encode()).hexdigest()
        self.digests = Digests(rules=rules[:16], engine=__version__, policy=self.policy.digest[:16])
        self.scanner = Scanner(Matcher(self.ruleset, engine=self.options.engine), mine=self.options.mine)
        self._accounting = tuple(
            r for name in self.options.accounting for r in parse_accounting(Path(name).read_bytes(), name=name)
        )

    def match_text(self, text: str) -> Match | None:
        """What the rules say of one raw line, as printed."""
        parser = LineParser("", Source.JOB_LOG)
        for line in parser.parse(text.encode("utf-8", "replace"), 1, 0):
            found = best(self.scanner.matcher.match_line(line))
            if found and not found[0].shadow:
                return found[0]
        return None

    def read_kernel_logs(self, found: Discovery) -> None:
        """Scan the kernel logs once; their matches join the attempts of their nodes."""
        self._kernel = tuple(self.scanner.scan(f) for f in found.kernel_files)

    def job(self, job: JobFiles, on_bytes: Callable[[int], None] | None = None) -> tuple[Result, ...]:
        """Results of the attempts of one job, oldest first."""
        scans = [self.scanner.scan(file, on_bytes) for file in job.files]
        results: list[Result] = []
        past: list[Record] = []
        evidences = assemble(job, scans, accounting=self._accounting, kernel=self._kernel, cluster=self.options.cluster)
        for i, evidence in enumerate(evidences):
            history = before(past, evidence.attempt)
            results.append(self.attempt(evidence, self._masked(scans, len(evidences) - i), history))
            past.append(results[-1].record())
        return tuple(results)

    def _masked(self, scans: Sequence[FileScan], back: int) -> Mapping[str, Masked] | None:
        """Masked lines of one attempt, counted from the job's last one (1), as `assemble` pairs the files' segments."""
        if not self.options.mine:
            return None
        from attribution.shapes import ShapeCounts
        from attribution.templates import mask

        segments = [scan.segments[-back] for scan in scans if len(scan.segments) >= back]
        return mask(ShapeCounts.merged(s.shapes for s in segments if s.shapes is not None))

    def attempt(
        self, evidence: Evidence, masked: Mapping[str, Masked] | None = None, history: History = EMPTY_HISTORY
    ) -> Result:
        """Diagnosis and Advice of one attempt's evidence: pure, so that a bundle can be replayed elsewhere."""
        evidence = with_correlations(self.ruleset, evidence)
        verdict = diagnose(evidence, self.ruleset, self.relation, self.digests)
        advice = self.advise(verdict.diagnosis, evidence.attempt, history)
        return Result(evidence=evidence, verdict=verdict, advice=advice, masked=masked)

    def advise(
        self, diagnosis: Diagnosis, attempt: Attempt, history: History = EMPTY_HISTORY, fleet: Fleet = EMPTY_FLEET
    ) -> Advice:
        """Advice under this analysis' policy, with what was before the attempt."""
        return advise(
            diagnosis,
            attempt,
            policy=self.policy,
            taxonomy=self.ruleset.taxonomy,
            history=history,
            fleet=fleet,
            now_s=self.options.now_s,
        )


def analyze(paths: Sequence[str], options: Options | None = None, *, stdin: BinaryIO | None = None) -> Iterator[Result]:
    """Diagnose every attempt found below `paths`, in a fixed order, in this process.

    Raises:
        RuleError, PolicyError: a rule or policy document is wrong.
        SourceError: an accounting export cannot be read. Logs that cannot be read never raise; see `Evidence.notes`.
    """
    options = options or Options()
    analyzer = Analyzer(options)
    found = discover(paths, patterns=options.patterns, each=options.each, kernel_logs=options.kernel_logs, stdin=stdin)
    analyzer.read_kernel_logs(found)
    for job in found.groups:
        yield from analyzer.job(job)
