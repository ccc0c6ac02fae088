"""Correlations: counts, sequences, units and missing successes over the matches of one attempt."""

from __future__ import annotations

from attribution.model import Attempt, AttemptKey, Evidence, Match, Place, Role
from attribution.signatures import RuleSet, correlate, load, with_correlations
from tests.signatures.conftest import Folder


def rules(folder: Folder, body: str) -> RuleSet:
    head = "correlations:\n  - id: correlation.test.one\n    title: t\n    class: gpu_hw.driver_fault\n"
    folder.add("correlation/test.yaml", head + "".join(f"    {x}\n" for x in body.strip().split("\n")))
    return load([folder.path])


def xid(number: str, pci: str, at_s: float | None, host: str = "gpu-003", count: int = 1) -> Match:
    offset = int((at_s or 0) * 100)
    return Match(
        signature="kernel.xid.event",
        role=Role.ROOT,
        failure_class="gpu_program.illegal_memory_access",
        place=Place(path="kern.log", line=offset + 1, offset=offset, time_s=at_s, host=host),
        text=f"NVRM: Xid (PCI:{pci}): {number}, pid=1",
        fields={"xid": number, "pci": pci},
        count=count,
    )


COUNT = "kind: count\nof: [kernel.xid.event]\nfields: {xid: ['13', '31']}\nunit: gpu\nat_least: 3\nwithin_s: 3600"


def test_one_gpu_again_and_again_is_hardware(xid_folder: Folder) -> None:
    found = correlate(rules(xid_folder, COUNT), [xid("31", "0:38", t) for t in (0.0, 600.0, 1200.0, 1300.0)])
    assert [(m.signature, m.failure_class, m.place.time_s) for m in found] == [
        ("correlation.test.one", "gpu_hw.driver_fault", 1200.0)
    ]
    assert found[0].fields["unit"] == "gpu-003/0:38"
    assert found[0].fields["seen"] == "3"


def test_not_when_spread_over_gpus_hosts_numbers_or_time(xid_folder: Folder) -> None:
    one = rules(xid_folder, COUNT)
    assert correlate(one, [xid("31", f"0:{i}", float(i)) for i in range(9)]) == []
    assert correlate(one, [xid("31", "0:38", float(i), host=f"gpu-{i}") for i in range(9)]) == []
    assert correlate(one, [xid("79", "0:38", float(i)) for i in range(9)]) == []
    assert correlate(one, [xid("31", "0:38", 3000.0 * i) for i in range(9)]) == []
    assert correlate(one, [xid("31", "0:38", None) for _ in range(9)]) == []  # no clock: unknown is not "together"


def test_folded_repetitions_count(xid_folder: Folder) -> None:
    assert len(correlate(rules(xid_folder, COUNT), [xid("31", "0:38", 5.0, count=7)])) == 1


def test_lines_of_one_fault_are_one_event(xid_folder: Folder) -> None:
    apart = rules(xid_folder, COUNT + "\napart_s: 60")
    burst = [xid("13", "0:38", t / 10) for t in range(40)]
    assert correlate(apart, burst) == []
    again = [*burst, xid("13", "0:38", 700.0), xid("13", "0:38", 700.1), xid("13", "0:38", 1500.0)]
    assert [m.place.time_s for m in correlate(apart, again)] == [1500.0]


def test_the_same_on_many_gpus_is_the_program(xid_folder: Folder) -> None:
    many = rules(xid_folder, "kind: units\nof: [kernel.xid.event]\nunit: gpu\nat_least: 4\nwithin_s: 60")
    found = correlate(many, [xid("31", f"0:{i}", float(i)) for i in range(6)])
    assert [(m.place.time_s, m.fields["seen"]) for m in found] == [(0.0, "6")]
    assert correlate(many, [xid("31", f"0:{i}", 100.0 * i) for i in range(6)]) == []
    assert correlate(many, [xid("31", "0:1", float(i)) for i in range(6)]) == []


def timeout(at_s: float, host: str = "gpu-003") -> Match:
    return Match(
        signature="pytorch.watchdog.timeout",
        role=Role.ROOT,
        failure_class="comm.collective_timeout",
        place=Place(path="job.log", line=int(at_s), offset=int(at_s), time_s=at_s, host=host),
        text="Watchdog caught",
    )


def test_a_then_b_stands_where_a_began(xid_folder: Folder) -> None:
    then = rules(xid_folder, "kind: sequence\nof: [kernel.xid.event]\nthen: [comm.*]\nunit: node\nwithin_s: 900")
    found = correlate(then, [xid("31", "0:38", 10.0), timeout(600.0)])
    assert [(m.signature, m.place.path) for m in found] == [("correlation.test.one", "kern.log")]
    assert correlate(then, [xid("31", "0:38", 10.0), timeout(2000.0)]) == []
    assert correlate(then, [timeout(5.0), xid("31", "0:38", 10.0)]) == []
    assert correlate(then, [xid("31", "0:38", 10.0, host="gpu-009"), timeout(600.0)]) == []


def test_an_error_without_a_later_success(xid_folder: Folder) -> None:
    without = rules(xid_folder, "kind: without\nof: [comm.collective_timeout]\nthen: [kernel.xid.event]\nwithin_s: 60")
    assert len(correlate(without, [timeout(10.0)])) == 1
    assert correlate(without, [timeout(10.0), xid("1", "0:1", 30.0)]) == []
    assert len(correlate(without, [timeout(10.0), xid("1", "0:1", 300.0)])) == 1


def test_evidence_gets_the_new_match_behind_its_line(xid_folder: Folder) -> None:
    matches = (*(xid("31", "0:38", t) for t in (0.0, 600.0, 1200.0)), timeout(1300.0))
    evidence = Evidence(attempt=Attempt(key=AttemptKey(job_id="1")), matches=matches)
    seen = with_correlations(rules(xid_folder, COUNT), evidence)
    assert [m.signature.partition(".")[0] for m in seen.matches] == [
        "kernel",
        "kernel",
        "kernel",
        "correlation",
        "pytorch",
    ]
    assert with_correlations(rules(xid_folder, COUNT), Evidence(attempt=evidence.attempt)).matches == ()
