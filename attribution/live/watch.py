"""Watches the logs of running attempts and says what it sees, with the engine that analyses finished ones.

A followed file is fed into the same `FileState` as a finished one, in whatever pieces it arrives, so its last diagnosis
equals the batch diagnosis. Time is a parameter: `tick(now)` does one round, and tests run on simulated time.

What stands in a file when it is first seen is history: it teaches rhythm and context and is never reported as news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from attribution.analyze import Analyzer
from attribution.attempts import assemble
from attribution.live.follow import Change, Chunk, Follower
from attribution.live.rhythm import Rhythm, Verdict
from attribution.model import Culprit, Diagnosis, Match, Outcome, Place, Role, Status
from attribution.result import Result
from attribution.scan import FileScan, FileState
from attribution.sources.blocks import ReadReport, block_of
from attribution.sources.discover import JobFiles


class Kind(StrEnum):
    """Kinds of events."""

    STARTED = "started"
    NO_PROGRESS_FORMAT = "no_progress_format"
    TROUBLE = "trouble"  # provisional diagnosis of a failure
    HANG_WARNING = "hang_warning"
    HANG = "hang"
    RECOVERED = "recovered"
    ENDED = "ended"  # final diagnosis
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth saying. `id` is the same whenever the same thing is seen again, so that it is said once."""

    id: str
    kind: Kind
    job: str
    time_s: float
    text: str
    result: Result | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long to wait for what; seconds.

    `settle_s` lets the true root arrive behind the first trouble; `quiet_s` without a new line behind an ending makes
    the diagnosis final. A run that never showed progress may take `init_s` to begin.
    """

    settle_s: float = 5.0
    settle_most_s: float = 60.0
    quiet_s: float = 30.0
    init_s: float = 1800.0
    least_gap_s: float = 60.0


@dataclass(slots=True)
class _Job:
    """One followed job: the state of its files and what was said of it."""

    job: JobFiles
    states: dict[str, FileState] = field(default_factory=dict)
    rhythm: Rhythm = field(default_factory=Rhythm)
    grew_s: float = 0.0
    trouble_s: float | None = None
    seen_troubles: int = 0
    said: set[str] = field(default_factory=set)
    history: bool = True
    ended: bool = False


class Watcher:
    """Follows the files of many jobs. Not thread-safe; one `tick` after the other.

    Args:
        analyzer: the loaded chain.
        follower: the open files.
        limits: how long to wait for what.
        history: True where what already stands in the files at the first tick is old.
    """

    def __init__(
        self, analyzer: Analyzer, follower: Follower, *, limits: Limits | None = None, history: bool = True
    ) -> None:
        self.analyzer, self.follower = analyzer, follower
        self.limits = limits or Limits()
        self._jobs: dict[str, _Job] = {}
        self._by_path: dict[str, _Job] = {}
        self._history = history

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: JobFiles) -> None:
        """Follow a job's files; files of a job that is known are added to it."""
        known = self._jobs.setdefault(job.name, _Job(job=job, history=self._history))
        if known.job is not job:
            old = {f.path for f in known.job.files}
            known.job = replace(known.job, files=(*known.job.files, *(f for f in job.files if f.path not in old)))
        for f in job.files:
            if f.path not in self._by_path and self.follower.add(f.path):
                self._by_path[f.path] = known
                known.states[f.path] = FileState(self.analyzer.scanner, f)

    def tick(self, now: float) -> Iterator[Event]:
        """One round: read what is new, and say what follows from it and from the time."""
        for chunk in self.follower.poll():
            job = self._by_path.get(chunk.path)
            if job is not None:
                yield from self._chunk(job, chunk, now)
        for job in self._jobs.values():
            yield from self._judge(job, now)
            job.history = False

    def _chunk(self, job: _Job, chunk: Chunk, now: float) -> Iterator[Event]:
        if chunk.change in (Change.TRUNCATED, Change.REPLACED):
            yield from self._end(job, now)
            file = next(f for f in job.job.files if f.path == chunk.path)
            job.states[chunk.path] = FileState(self.analyzer.scanner, file)
            job.rhythm, job.trouble_s, job.seen_troubles, job.ended = Rhythm(), None, 0, False
            yield self._event(job, Kind.REPLACED, now, f"{chunk.path} begins anew", key=f"{chunk.path}:{chunk.life}")
        if not chunk.data:
            return
        state = job.states[chunk.path]
        before = state.current.n_points
        state.feed(block_of(chunk.data, chunk.offset, chunk.first_line))
        job.grew_s, job.ended = now, False
        if state.current.n_points > before:
            job.rhythm.progress(now, learn=not job.history)

    def _judge(self, job: _Job, now: float) -> Iterator[Event]:
        if job.ended or not job.grew_s:
            return
        if job.history:
            # What stands there already is known: only what follows is news.
            job.seen_troubles = self._troubles(job)
            job.ended = True
            return
        troubles = self._troubles(job)
        if troubles > job.seen_troubles:
            job.seen_troubles = troubles
            job.trouble_s = now if job.trouble_s is None else job.trouble_s
            if now - job.trouble_s < self.limits.settle_most_s and now - job.grew_s < self.limits.settle_s:
                return
        if job.trouble_s is not None and now - job.trouble_s >= self.limits.settle_s:
            yield from self._trouble(job, now)
        if now - job.grew_s >= self.limits.quiet_s and (job.trouble_s is not None or self._completed(job)):
            yield from self._end(job, now)
        elif job.trouble_s is None:
            yield from self._rhythm(job, now)

    @staticmethod
    def _troubles(job: _Job) -> int:
        return sum(1 for s in job.states.values() for m in s.folder.matches if _is_trouble(m))

    @staticmethod
    def _completed(job: _Job) -> bool:
        return any("completed" in m.marks for s in job.states.values() for m in s.folder.matches)

    def _rhythm(self, job: _Job, now: float) -> Iterator[Event]:
        """A hang is told by the clock alone: no progress beyond what this job itself has shown that it may take."""
        verdict = job.rhythm.judge(now, least_s=self.limits.least_gap_s)
        if verdict is Verdict.UNKNOWN:
            if now - job.grew_s > self.limits.init_s and not job.rhythm.seen:
                yield from self._once(
                    job, Kind.NO_PROGRESS_FORMAT, now, "no progress format recognised: hangs cannot be told"
                )
        elif verdict is Verdict.LATE:
            yield from self._once(job, Kind.HANG_WARNING, now, job.rhythm.describe(now), key=f"{job.rhythm.last_s}")
        elif verdict is Verdict.HANGING:
            for result in self.results(job)[-1:]:
                hung = replace(
                    result, verdict=replace(result.verdict, diagnosis=_hung(result.diagnosis, job.rhythm.describe(now)))
                )
                yield from self._once(
                    job, Kind.HANG, now, job.rhythm.describe(now), key=f"{job.rhythm.last_s}", result=hung
                )

    def _trouble(self, job: _Job, now: float) -> Iterator[Event]:
        for result in self.results(job)[-1:]:
            d = result.diagnosis
            if d.outcome not in (Outcome.COMPLETED, Outcome.RUNNING) and d.root is not None:
                key = f"{d.failure_class}:{d.root.path}:{d.root.line}"
                yield from self._once(
                    job, Kind.TROUBLE, now, f"{d.failure_class} at {d.root.path}:{d.root.line}", key=key, result=result
                )

    def _end(self, job: _Job, now: float) -> Iterator[Event]:
        if job.ended:
            return
        job.ended = True
        for result in self.results(job)[-1:]:
            d = result.diagnosis
            lines = sum(s.next_line for s in job.states.values())
            yield from self._once(job, Kind.ENDED, now, f"{d.outcome} {d.failure_class}", key=f"{lines}", result=result)

    def results(self, job: _Job) -> tuple[Result, ...]:
        """Results of a job as its files stand: the batch analysis of what was read so far."""
        scans = [
            FileScan(file=f, segments=job.states[f.path].segments(), report=ReadReport())
            for f in job.job.files
            if f.path in job.states
        ]
        return tuple(self.analyzer.attempt(e) for e in assemble(job.job, scans, cluster=self.analyzer.options.cluster))

    def final(self) -> dict[str, tuple[Result, ...]]:
        """Results of every job as its files stand."""
        return {name: self.results(job) for name, job in sorted(self._jobs.items())}

    def _once(
        self, job: _Job, kind: Kind, now: float, text: str, *, key: str = "", result: Result | None = None
    ) -> Iterator[Event]:
        event = self._event(job, kind, now, text, key=key, result=result)
        if event.id in job.said:
            return
        job.said.add(event.id)
        if not job.history:
            yield event

    @staticmethod
    def _event(job: _Job, kind: Kind, now: float, text: str, *, key: str = "", result: Result | None = None) -> Event:
        return Event(
            id=f"{job.job.name}:{kind}:{key}", kind=kind, job=job.job.name, time_s=now, text=text, result=result
        )


def _is_trouble(m: Match) -> bool:
    return m.failure_class is not None and m.role in (Role.ROOT, Role.CASCADE, Role.CONFIRMATION) and not m.shadow


def _hung(d: Diagnosis, text: str) -> Diagnosis:
    """The diagnosis of a run that shows no trouble and no progress either: the clock is the only witness."""
    return replace(
        d,
        outcome=Outcome.HUNG,
        failure_class="hang.no_progress",
        status=Status.SUPPORTED,
        confidence=0.8,
        culprit=Culprit(because="the clock names nobody"),
        because=(text,),
        decided_by="detector",
        signals=tuple(sorted({*d.signals, "hung"})),
    )


def places(result: Result) -> Sequence[Place]:
    """Places of the matches that a result's answer rests on, for showing them."""
    return [m.place for e in result.episodes[:1] for m in e.initiating]


Clock = Callable[[], float]
