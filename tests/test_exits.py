"""How ranks ended: witnesses joined, victims told from causes."""

from __future__ import annotations

import pytest

from attribution.exits import collect, interpret, primary, resolved, signal_number, task_list
from attribution.model import Role
from tests.make import match


@pytest.mark.parametrize(
    ("text", "n"),
    [("SIGKILL", 9), ("Killed", 9), ("11", 11), ("Segmentation fault", 11), ("TERM", 15), ("nonsense", None)],
)
def test_signals_by_any_name(text: str, n: int | None) -> None:
    assert signal_number(text) == n


def test_compressed_task_lists_are_bounded() -> None:
    assert task_list("24-26,28") == (24, 25, 26, 28)
    assert len(task_list("0-99999999")) == 65_536
    assert task_list("x-y") == ()


def agent(line: int, pid: int, code: int, local: int):  # type: ignore[no-untyped-def]
    return match(
        "unknown.process_killed",
        line,
        marks=frozenset({"rank_exit"}),
        fields={"exit_code": str(code), "pid": str(pid), "local_rank": str(local)},
    )


def test_the_summary_completes_what_the_agent_said() -> None:
    witnesses = [
        agent(10, 1029, -9, 0),
        match(None, 20, marks=frozenset({"summary"}), fields={"node": "gpu-001"}),
        match(None, 21, marks=frozenset({"summary"}), fields={"rank": "4", "local_rank": "0"}),
        match(
            "unknown.process_killed",
            22,
            marks=frozenset({"summary", "rank_exit"}),
            fields={"exit_code": "-9", "pid": "1029"},
        ),
    ]
    first, last = resolved(collect(witnesses))
    assert (first.rank, first.node, first.signal) == (4, "gpu-001", 9)
    assert (last.rank, last.summary) == (4, True)


def test_a_process_that_its_launcher_signalled_is_a_victim() -> None:
    closing = match("unknown.process_killed", 5, role=Role.TEARDOWN, fields={"pid": "7", "signal": "SIGTERM"})
    victim, cause = agent(9, 7, -15, 1), agent(8, 6, -9, 0)
    seen = interpret([closing, cause, victim])
    assert [m.role for m in seen] == [Role.TEARDOWN, Role.ROOT, Role.TEARDOWN]


def test_signals_that_no_program_chooses_come_before_exit_codes() -> None:
    exits = collect([agent(1, 5, 1, 0), agent(2, 6, -11, 1)])
    assert [e.signal for e in primary(exits)] == [11]
