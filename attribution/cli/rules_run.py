"""Whole verdicts for `recovery rules test` (scenarios) and `recovery rules diff`: the chain with a given rule set."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attribution import causality
from attribution.attempts import assemble
from attribution.diagnose import diagnose
from attribution.match import Matcher
from attribution.model import Diagnosis, Digests
from attribution.scan import Scanner
from attribution.signatures import RuleSet, with_correlations
from attribution.signatures.scenario import Rendered
from attribution.sources.discover import discover


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A diagnosis and the names that find it again in another run."""

    key: str
    files: tuple[str, ...]
    diagnosis: Diagnosis


class Chain:
    """Diagnoses with one rule set."""

    def __init__(self, ruleset: RuleSet, folders: Sequence[Path], engine: str = "auto") -> None:
        self.ruleset = ruleset
        self.relation = causality.load(folders)
        self.scanner = Scanner(Matcher(ruleset, engine), mine=False)
        self.digests = Digests(rules=ruleset.digest[:16], engine="rules")

    def verdicts(self, paths: Sequence[str], *, each: bool = False, kernel: Sequence[str] = ()) -> Iterator[Named]:
        """One per attempt, in the order of discovery."""
        found = discover(paths, each=each, kernel_logs=kernel)
        kernel_scans = tuple(self.scanner.scan(f) for f in found.kernel_files)
        for job in found.groups:
            scans = [self.scanner.scan(f) for f in job.files]
            for evidence in assemble(job, scans, accounting=(), kernel=kernel_scans, cluster=None):
                seen = with_correlations(self.ruleset, evidence)
                verdict = diagnose(seen, self.ruleset, self.relation, self.digests)
                yield Named(key=str(evidence.attempt.key), files=evidence.attempt.files, diagnosis=verdict.diagnosis)

    def judge(self, rendered: Rendered) -> list[Diagnosis]:
        """Diagnoses of a scenario, written into a folder that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="recovery-scenario-") as name:
            folder = Path(name)
            job = folder / "job"
            job.mkdir()
            for file, data in rendered.files.items():
                (folder if file in rendered.kernel_files else job).joinpath(file).write_bytes(data)
            kernel = [str(folder / f) for f in rendered.kernel_files]
            return [n.diagnosis for n in self.verdicts([str(job)], each=True, kernel=kernel)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An attempt whose verdict two rule sets give differently."""

    kind: str  # newly caught | newly broken | changed
    key: str
    files: tuple[str, ...]
    old: Diagnosis | None
    new: Diagnosis | None


def _told(diagnosis: Diagnosis | None) -> tuple[object, ...]:
    if diagnosis is None:
        return ()
    root = diagnosis.root
    place = (root.path, root.line, root.role) if root else None
    return (diagnosis.outcome, diagnosis.failure_class, place)


def _known(diagnosis: Diagnosis | None) -> bool:
    name = diagnosis.failure_class if diagnosis else None
    return name is not None and not name.startswith(("unknown.", "healthy."))


def compare(old: Sequence[Named], new: Sequence[Named]) -> list[Change]:
    """What changes from old to new, attempt by attempt.

    An attempt is newly caught where only the new rules give it a class that says something, newly broken where only
    the old ones did.
    """
    before = {(n.key, n.files): n.diagnosis for n in old}
    after = {(n.key, n.files): n.diagnosis for n in new}
    out: list[Change] = []
    for name in sorted({*before, *after}):
        a, b = before.get(name), after.get(name)
        if _told(a) == _told(b):
            continue
        kind = "changed" if _known(a) == _known(b) else "newly caught" if _known(b) else "newly broken"
        out.append(Change(kind=kind, key=name[0], files=name[1], old=a, new=b))
    return out
