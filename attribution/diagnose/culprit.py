"""Who started it: ranks, nodes, GPUs. Nobody is an answer, and so is "one of these".

A rank is named only where the evidence singles it out: it alone raised the root, it alone ended first, or it alone is
missing where all others wait. Where most ranks tell the same, nobody is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from attribution.exits import RankExit, collect, primary, resolved
from attribution.model import Culprit, Episode, Evidence, Match
from attribution.progress import whole

#: Classes in which the rank that speaks is a victim: the culprit is one that does not speak.
_WAITING = (
    "comm.collective_timeout",
    "comm.peer_lost",
    "hang.no_progress",
    "hang.heartbeat_lost",
    "hang.deadlock",
    "comm.store_unreachable",
    "comm.rendezvous_failed",
)
#: Classes of which a whole run is the subject: nobody is singled out by them.
_NOBODY = ("scheduler.", "healthy.", "straggler.slowdown")
#: Lines between a launcher's head ("Process 1 terminated with ...") and the exception that it repeats.
HEAD_LINES = 60
#: Specificity of signatures that name a device's own fault.
DEVICE = 70
#: Most culprits ever named.
MOST = 8


def world_size(evidence: Evidence) -> int | None:
    """Number of ranks, from the attempt's identity or the highest rank seen."""
    if evidence.attempt.n_ranks:
        return evidence.attempt.n_ranks
    ranks = [r.rank for r in evidence.ranks]
    return max(ranks) + 1 if ranks else None


def rank_of(match: Match, evidence: Evidence) -> int | None:
    """The global rank that a match speaks of: its own field, its prefix, or its local rank where one node is all."""
    named = whole(match.fields.get("rank"))
    if named is not None:
        return named
    if match.place.rank is not None:
        return match.place.rank
    if (head := _rank_head(match, evidence)) is not None:
        return head
    if match.place.task is not None and tasks_are_ranks(evidence):
        return match.place.task
    local = match.place.local_rank if match.place.local_rank is not None else whole(match.fields.get("local_rank"))
    if local is None:
        return None
    return global_rank(local, match.place.host or match.fields.get("node"), evidence)


def tasks_are_ranks(evidence: Evidence) -> bool:
    """True where srun's task numbers are the ranks: no line shows another rank behind its task number.

    With one task per node, as torchrun is started, the number in front of a line is the node's.
    """
    return not any(
        (m.place.task is not None and m.place.rank is not None and m.place.task != m.place.rank)
        or m.place.local_rank is not None
        or "closing_signal" in m.signature
        for m in evidence.matches
    )


def _rank_head(match: Match, evidence: Evidence) -> int | None:
    """The rank whose words a launcher repeats right above the match."""
    for m in reversed(evidence.matches):
        near = m.place.path == match.place.path and 0 < match.place.line - m.place.line <= HEAD_LINES
        if near and "rank_head" in m.marks:
            return next(
                (n for k, v in sorted(m.fields.items()) if k.startswith("rank") and (n := whole(v)) is not None), None
            )
    return None


def global_rank(local: int, node: str | None, evidence: Evidence) -> int | None:
    """A local rank as a global one: by the topology seen, or as it is where only one node takes part."""
    for r in evidence.ranks:
        if r.local_rank == local and (node is None or r.node == node):
            return r.rank
    nodes = {r.node for r in evidence.ranks if r.node} | set(evidence.attempt.nodes)
    return local if len(nodes) <= 1 else None


def node_of_rank(rank: int, evidence: Evidence) -> str | None:
    """Node of a rank where some line tells it, or where srun names the node of a task of that number."""
    for r in evidence.ranks:
        if r.rank == rank and r.node:
            return r.node
    if tasks_are_ranks(evidence):
        for e in collect(evidence.matches):
            if rank in e.tasks and e.node and "[" not in e.node:
                return e.node
    return None


def _many(ranks: Sequence[int], evidence: Evidence) -> bool:
    """True where so many ranks tell the same that none of them is the one."""
    size = world_size(evidence)
    if len(ranks) > MOST:
        return True
    return len(ranks) > 1 and (size is None or len(ranks) * 2 >= size)


def _unique(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({v for v in values if v}))


def _speakers(episode: Episode, evidence: Evidence) -> Culprit:
    """The ranks and nodes that told the root themselves."""
    initiating = episode.initiating
    ranks = sorted({r for m in initiating if (r := rank_of(m, evidence)) is not None})
    nodes = _unique(m.fields.get("node") or m.place.host for m in initiating)
    gpus = _unique(m.fields.get("pci") or m.fields.get("gpu") for m in initiating)
    if not ranks and not nodes:
        return _by_exit(episode, evidence)
    if _many(ranks, evidence):
        return Culprit(because=f"{len(ranks)} ranks tell the same")
    if ranks and not nodes:
        nodes = _unique(node_of_rank(r, evidence) for r in ranks)
    # Several nodes that tell of the same broken device are several broken nodes; of a vaguer trouble they are witnesses.
    vague = episode.root.specificity < DEVICE
    if len(nodes) > MOST or (vague and len(nodes) > 1 and len(nodes) * 2 > max(2, len(evidence.attempt.nodes))):
        nodes = ()
    return Culprit(nodes=nodes, ranks=tuple(ranks), gpus=gpus[:MOST], because="told the root itself")


def _by_exit(episode: Episode, evidence: Evidence) -> Culprit:
    """The only rank that ended by itself, where the root line does not say whose it is."""
    if len({m.place.line for m in episode.initiating if "exception" in m.marks}) > 1:
        return Culprit(because="several processes tell the same and none says which it is")
    firsts = primary(resolved(collect(evidence.matches)))
    ranks = sorted({r for e in firsts if (r := exit_rank(e, evidence)) is not None})
    nodes = _unique(e.node for e in firsts)
    if len(ranks) == 1:
        return Culprit(ranks=tuple(ranks), nodes=nodes if len(nodes) == 1 else (), because="alone ended by itself")
    return Culprit(because="nothing says which rank it was")


def exit_rank(e: RankExit, evidence: Evidence) -> int | None:
    """Global rank of an exit. A single task number is the rank where tasks and ranks are the same in number."""
    if e.rank is not None:
        return e.rank
    if e.local_rank is not None:
        return global_rank(e.local_rank, e.node, evidence)
    return e.tasks[0] if len(e.tasks) == 1 and tasks_are_ranks(evidence) else None


def missing_ranks(episode: Episode, evidence: Evidence) -> tuple[int, ...]:
    """Ranks that did not arrive: named by a barrier or desync report, or silent where all others complain."""
    named: set[int] = set()
    for m in (*episode.initiating, *episode.cascade, *episode.context):
        for piece in (m.fields.get("missing_ranks") or "").replace(",", " ").split():
            if piece.isdigit():
                named.add(int(piece))
    if named:
        return tuple(sorted(named))[: MOST + 1]
    if len(stuck := _stuck(evidence)) == 1:
        return stuck
    size = world_size(evidence)
    speaking = {
        r
        for m in (*episode.initiating, *episode.cascade)
        if m.failure_class and (r := rank_of(m, evidence)) is not None
    }
    if size is None or not speaking or len(speaking) * 2 < size:
        return ()
    return tuple(r for r in range(size) if r not in speaking)


def _stuck(evidence: Evidence) -> tuple[int, ...]:
    """Ranks whose processes would not end when told to."""
    pids = {whole(m.fields.get("pid")) for m in evidence.matches if "stuck_process" in m.marks}
    return tuple(r.rank for r in evidence.ranks if r.pid is not None and r.pid in pids)


def _missing(episode: Episode, evidence: Evidence) -> Culprit:
    missing = missing_ranks(episode, evidence)
    size = world_size(evidence)
    if not missing or len(missing) > MOST or (size and len(missing) * 2 > size):
        return Culprit(because="no rank stands out among those that wait")
    nodes = _unique(node_of_rank(r, evidence) for r in missing)
    return Culprit(ranks=missing, nodes=nodes, because="did not speak where all others wait")


def find(evidence: Evidence, episode: Episode | None, failure_class: str | None) -> Culprit:
    """The culprit of an episode's class. Nodes are only named from the attempt's own allocation where that is known."""
    if episode is None or failure_class is None or failure_class.startswith(_NOBODY):
        return Culprit()
    if failure_class in _WAITING:
        found = _missing(episode, evidence)
    else:
        found = _speakers(episode, evidence)
    if not found.nodes and len(evidence.attempt.nodes) == 1 and failure_class.startswith(("gpu_hw.", "node_infra.")):
        found = replace(found, nodes=evidence.attempt.nodes, because=found.because or "the attempt's only node")
    allowed = set(evidence.attempt.nodes)
    nodes = tuple(n for n in found.nodes if not allowed or n in allowed or n.split(".")[0] in allowed)
    return Culprit(nodes=nodes, ranks=found.ranks, gpus=found.gpus, path=found.path, because=found.because)
