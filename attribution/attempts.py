"""Segments of files -> attempts, each with all that its files say, in one bounded `Evidence`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from attribution.episodes import ordered
from attribution.exits import collect, interpret, resolved
from attribution.model import Attempt, AttemptKey, Evidence, Line, Match, Place, ProgressPoint, RankFacts, Source
from attribution.progress import summarise, whole
from attribution.scan import FileScan, Segment
from attribution.sources.accounting import AccountingRecord
from attribution.sources.discover import JobFiles
from attribution.sources.identity import Identity, identify

#: Matches and tail lines kept for one attempt, over all its files.
MOST_MATCHES = 50_000
MOST_TAIL = 400


def assemble(
    job: JobFiles,
    scans: Sequence[FileScan],
    *,
    accounting: Sequence[AccountingRecord] = (),
    kernel: Sequence[FileScan] = (),
    cluster: str | None = None,
) -> tuple[Evidence, ...]:
    """Attempts of one job, oldest first.

    One segment per file makes one attempt of all files. Where a file holds several segments (append mode), the files'
    segments are paired from the end, since the last attempt is the one that every file has.
    """
    most = max((len(s.segments) for s in scans), default=0)
    out: list[Evidence] = []
    restarts: dict[str, int] = {}
    for back in range(most, 0, -1):
        parts = [s.segments[-back] for s in scans if len(s.segments) >= back]
        identity = _identity(job, parts)
        job_id = identity.job_id or job.job_id or job.name
        restart = identity.restart if identity.restart is not None else restarts.get(job_id, 0)
        restarts[job_id] = restart + 1
        record = _record(accounting, job_id, restart)
        out.append(
            _evidence(job, parts, identity, record, restart=restart, job_id=job_id, cluster=cluster, scans=scans)
        )
    return tuple(_join_kernel(e, kernel) for e in out)


def _identity(job: JobFiles, parts: Sequence[Segment]) -> Identity:
    lines = [line for part in parts[:8] for line in (*part.head, *part.tail)]
    return identify(lines)


def _record(records: Sequence[AccountingRecord], job_id: str, restart: int) -> AccountingRecord | None:
    """Accounting of the same job: the record of that restart, else the newest."""
    own = [r for r in records if r.job_id == job_id]
    if not own:
        return None
    return own[restart] if restart < len(own) else own[-1]


def _evidence(
    job: JobFiles,
    parts: Sequence[Segment],
    identity: Identity,
    record: AccountingRecord | None,
    *,
    restart: int,
    job_id: str,
    cluster: str | None,
    scans: Sequence[FileScan],
) -> Evidence:
    matches = interpret(ordered([m for part in parts for m in part.matches])[:MOST_MATCHES])
    points = _by_time([p for part in parts for p in part.points])
    tail = tuple(line for part in parts for line in part.tail)[-MOST_TAIL:]
    ranks = rank_facts(parts, matches)
    nodes = _nodes(record, identity, ranks, matches, parts)
    stamped = [t for t in (*(m.place.time_s for m in matches), *(line.place.time_s for line in tail)) if t is not None]
    attempt = Attempt(
        key=AttemptKey(
            job_id=job_id,
            cluster=cluster or (record.cluster if record else None),
            submit_time_s=int(record.submit_s) if record and record.submit_s is not None else None,
            restart=restart,
        ),
        files=tuple(part.file.display for part in parts),
        nodes=nodes,
        name=record.name if record else None,
        user=record.user if record else None,
        partition=record.partition if record else None,
        n_ranks=_n_ranks(identity, ranks, matches),
        gpus=record.gpus if record else None,
        state=record.state if record else None,
        exit_code=record.exit_code if record else None,
        exit_signal=record.exit_signal if record else None,
        time_limit_s=record.time_limit_s if record else None,
        start_time_s=record.start_s if record else None,
        end_time_s=record.end_s if record else None,
        first_line_s=min(stamped) if stamped else None,
        last_line_s=max(stamped) if stamped else None,
        comment=record.comment if record else None,
        size_bytes=sum(part.size_bytes for part in parts),
        n_lines=sum(part.n_lines for part in parts),
    )
    return Evidence(
        attempt=attempt,
        matches=tuple(matches),
        progress=summarise(points, matches, n_points=sum(part.n_points for part in parts)),
        ranks=ranks,
        tail=tail,
        sources=frozenset({Source.JOB_LOG, *([Source.ACCOUNTING] if record else [])}),
        growing=any(s.report.growing for s in scans),
        notes=tuple(p for s in scans for p in s.report.problems),
    )


def _by_time(points: Sequence[ProgressPoint]) -> list[ProgressPoint]:
    """Points of several files by time where all carry one, else file by file."""
    if len({p.place.path for p in points}) > 1 and all(p.place.time_s is not None for p in points):
        return sorted(points, key=lambda p: (p.place.time_s or 0.0, p.place.path, p.place.offset))
    return list(points)


def _nodes(
    record: AccountingRecord | None,
    identity: Identity,
    ranks: Sequence[RankFacts],
    matches: Sequence[Match],
    parts: Sequence[Segment],
) -> tuple[str, ...]:
    """The allocation where accounting or the environment tells it, else the nodes that lines and file names tell."""
    if record and record.nodes:
        return record.nodes
    if identity.nodes:
        return identity.nodes
    seen = {r.node for r in ranks if r.node}
    seen.update(m.fields["node"] for m in matches if m.fields.get("node"))
    seen.update(part.file.hints.node for part in parts if part.file.hints.node)
    return tuple(sorted(seen))


def _n_ranks(identity: Identity, ranks: Sequence[RankFacts], matches: Sequence[Match]) -> int | None:
    told = [n for m in matches if (n := whole(m.fields.get("nranks"))) is not None and 0 < n < 10**7]
    highest = max((r.rank for r in ranks), default=-1) + 1
    known = [n for n in (identity.n_ranks, max(told, default=0), highest) if n]
    return max(known) if known else None


def _rank_of(match: Match) -> int | None:
    named = whole(match.fields.get("rank"))
    rank = named if named is not None else match.place.rank
    return rank if rank is not None and 0 <= rank < 10**6 else None


def rank_facts(parts: Sequence[Segment], matches: Sequence[Match]) -> tuple[RankFacts, ...]:
    """Who is who: node, GPU, process and lines of every rank that anything tells of."""
    facts: dict[int, RankFacts] = {}
    for part in parts:
        hint = part.file.hints
        if hint.rank is not None:
            facts[hint.rank] = RankFacts(rank=hint.rank, node=hint.node)
    for m in matches:
        rank = _rank_of(m)
        if rank is None:
            continue
        old = facts.get(rank, RankFacts(rank=rank))
        own = "rank_node" in m.marks
        spoken = m.place.rank == rank
        facts[rank] = replace(
            old,
            node=old.node or m.fields.get("node" if own else "-") or (m.place.host if spoken else None),
            gpu=old.gpu if old.gpu is not None else (whole(m.fields.get("gpu")) if own else None),
            pci=old.pci or (m.fields.get("pci") if own else None),
            pid=old.pid if old.pid is not None else (whole(m.fields.get("pid")) if own else None),
            local_rank=old.local_rank if old.local_rank is not None else _local_rank(m, own),
            first_line=old.first_line or (m.place if spoken else None),
            last_line=m.place if spoken else old.last_line,
        )
    for e in resolved(collect(matches)):
        if e.rank is not None and 0 <= e.rank < 10**6:
            old = facts.get(e.rank, RankFacts(rank=e.rank))
            facts[e.rank] = replace(
                old,
                node=old.node or e.node,
                pid=old.pid if old.pid is not None else e.pid,
                local_rank=old.local_rank if old.local_rank is not None else e.local_rank,
                exit_code=old.exit_code if old.exit_code is not None else e.exit_code,
                signal=old.signal if old.signal is not None else e.signal,
            )
    _last_words((line for part in parts for line in part.tail), facts)
    return tuple(facts[r] for r in sorted(facts))


def _local_rank(match: Match, own: bool) -> int | None:
    if match.place.local_rank is not None and match.place.rank is not None:
        return match.place.local_rank
    return whole(match.fields.get("local_rank")) if own else None


def _last_words(tail: Iterable[Line], facts: dict[int, RankFacts]) -> None:
    """A rank's last line in a tail window is its last sign of life where it is later than its last match."""
    for line in tail:
        rank = line.place.rank
        if rank is not None and rank in facts:
            old: Place | None = facts[rank].last_line
            if old is None or (old.path == line.place.path and old.offset < line.place.offset):
                facts[rank] = replace(facts[rank], last_line=line.place)


def _join_kernel(evidence: Evidence, kernel: Sequence[FileScan]) -> Evidence:
    """Kernel log matches of the attempt's nodes within its time, trusted as such."""
    if not kernel:
        return evidence
    nodes = {n.split(".")[0] for n in evidence.attempt.nodes}
    low = evidence.attempt.start_time_s or evidence.attempt.first_line_s
    high = evidence.attempt.end_time_s or evidence.attempt.last_line_s
    found: list[Match] = []
    for scan in kernel:
        for segment in scan.segments:
            for m in segment.matches:
                host = (m.place.host or scan.file.hints.node or "").split(".")[0]
                if not host or (nodes and host not in nodes):
                    continue
                at = m.place.time_s
                if low is not None and high is not None and at is not None and not low - 600 <= at <= high + 600:
                    continue
                found.append(replace(m, place=replace(m.place, host=host), fields={**m.fields, "node": host}))
    return replace(
        evidence,
        matches=ordered((*evidence.matches, *found)),
        sources=evidence.sources | {Source.KERNEL_LOG},
    )
