"""Pages, scaffold, scenarios' format and generated texts."""

from __future__ import annotations

from pathlib import Path

from attribution.model import AttemptKey, Culprit, Diagnosis, Domain, EvidenceItem, Outcome, Role, Source, Status
from attribution.signatures import load
from attribution.signatures.pages import pages, stale, write
from attribution.signatures.scaffold import draft, draft_pattern, is_id
from attribution.signatures.scenario import Expectation, differences, load_scenarios, render, run
from tests.signatures.conftest import Folder


def test_a_page_tells_everything_of_a_rule(xid_folder: Folder) -> None:
    xid_folder.rule(
        limits="says | nothing about <who>", fix="look", references="['socket.cc']", allow="{R014: it is so short}"
    )
    text = pages(load([xid_folder.path]))
    assert set(text) == {"classes.md", "index.md", "kernel.md", "nccl.md", "table-xid.md"}
    assert "## nccl.net.peer_reset" in text["nccl.md"]
    assert r"says \| nothing about \<who\>" in text["nccl.md"]
    assert "Connection established" in text["nccl.md"]
    assert "| `79` | gpu_hw.off_bus | root | GPU has fallen off the bus | RESET\\_GPU |" in text["table-xid.md"]
    assert "[kernel.xid.event](kernel.md)" in text["classes.md"]


def test_stale_pages_are_noticed_and_old_ones_removed(xid_folder: Folder, tmp_path: Path) -> None:
    rules, out = load([xid_folder.path]), tmp_path / "pages"
    assert write(rules, out) == 4
    assert stale(rules, out) == []
    (out / "kernel.md").write_text("edited")
    (out / "gone.md").write_text("of an emitter that is gone")
    assert stale(rules, out) == ["gone.md", "kernel.md"]
    assert write(rules, out) == 2
    assert not (out / "gone.md").exists()


def test_hostile_examples_stay_in_their_block(folder: Folder) -> None:
    folder.rule(examples="[{text: '``` Connection reset by peer <script>alert(1)</script>'}]")
    page = pages(load([folder.path]))["nccl.md"]
    assert "````text\n``` Connection reset by peer <script>alert(1)</script>\n````" in page


def test_a_draft_is_a_rule_that_proves_itself(folder: Folder) -> None:
    line = "[rank3]: acme-feeder: shard 17 of /data/tokens is gone (peer 10.0.3.7) at 0x7f3a"
    assert is_id("acme.feeder.shard_lost")
    assert not is_id("Acme")
    text = draft("acme.feeder.shard_lost", line, "comm.peer_lost", "root", Source.JOB_LOG)
    rules = load([folder.add("signatures/acme.yaml", "signatures:\n" + text).path])
    signature = rules.by_id["acme.feeder.shard_lost"]
    assert signature.find("acme-feeder: shard 9 of /other is gone (peer 10.0.0.9) at 0xff") == {}
    assert signature.any[0].source == draft_pattern(line.removeprefix("[rank3]: "))


SCENARIOS = """\
scenarios:
  - name: a GPU falls off the bus
    lines:
      - {t: 0, rank: 0, text: "iteration {n}/ 500", times: 3, every_s: 5, start: 7}
      - {t: 7, host: gpu-003, source: kernel_log, text: "NVRM: Xid (PCI:0000:38:00): 79, x"}
      - {t: 12, rank: 3, text: "Connection reset by peer"}
      - {text: "bye"}
    expect: {class: gpu_hw.off_bus, root_line: 2, culprit: {nodes: [gpu-003]}}
  - name: nothing happens
    lines: [{text: "hello"}]
    expect: nothing
"""


def diagnosis(outcome: Outcome, failure_class: str | None, path: str = "", line: int = 1) -> Diagnosis:
    root = EvidenceItem(signature="s", role=Role.ROOT, path=path, line=line, offset=0, text="") if path else None
    return Diagnosis(
        attempt=AttemptKey(job_id="1"),
        outcome=outcome,
        failure_class=failure_class,
        domain=Domain.UNKNOWN,
        status=Status.SUPPORTED,
        confidence=0.5,
        root=root,
        culprit=Culprit(nodes=("gpu-003",)),
    )


def test_scenarios_are_printed_as_logs_in_order_of_time(folder: Folder) -> None:
    folder.add("tests/gpu.yaml", SCENARIOS)
    scenarios, findings = load_scenarios(folder.path / "tests")
    assert findings == []
    rendered = render(scenarios[0])
    assert rendered.kernel_files == ("kernel_log-gpu-003.log",)
    assert rendered.files["job.log"].decode().splitlines() == [
        "2026-01-01 00:00:00.000 [rank0]: iteration 7/ 500",
        "2026-01-01 00:00:05.000 [rank0]: iteration 8/ 500",
        "2026-01-01 00:00:10.000 [rank0]: iteration 9/ 500",
        "2026-01-01 00:00:12.000 [rank3]: Connection reset by peer",
        "bye",
    ]
    assert rendered.entry_of[("job.log", 4)] == 3
    assert rendered.entry_of[("kernel_log-gpu-003.log", 1)] == 2


def test_a_scenario_holds_or_says_what_differs(folder: Folder) -> None:
    scenarios, _ = load_scenarios(folder.add("tests/gpu.yaml", SCENARIOS).path / "tests")
    good = diagnosis(Outcome.FAILED, "gpu_hw.off_bus", "/x/kernel_log-gpu-003.log", 1)
    bad = diagnosis(Outcome.FAILED, "comm.peer_lost", "/x/job.log", 4)
    assert run(scenarios[:1], lambda _: [good]) == [(scenarios[0], [])]
    ((_, said),) = run(scenarios[:1], lambda _: [bad])
    assert said == ["class is comm.peer_lost, not gpu_hw.off_bus", "root_line is 3, not 2"]
    quiet = render(scenarios[1])
    assert differences(Expectation(nothing=True), diagnosis(Outcome.COMPLETED, None), quiet) == []
    assert differences(Expectation(nothing=True), bad, quiet) == ["failed comm.peer_lost, not nothing"]


def test_a_broken_scenario_is_a_finding(folder: Folder) -> None:
    folder.add("tests/bad.yaml", "scenarios:\n  - name: x\n    lines: []\n    expect: something\n")
    scenarios, findings = load_scenarios(folder.path / "tests")
    assert scenarios == []
    assert {f.code for f in findings} == {"R001"}
