"""Loading: everything wrong at once with file and line, overlays, switches, tables, cache, digest."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from attribution.model import Domain, Line, Place, Role, RuleError, Source
from attribution.resources import rules_dir
from attribution.signatures import RulesError, examine, load
from attribution.signatures import load as load_rules
from tests.signatures.conftest import TABLE, XID, Folder


def test_all_findings_of_all_files_come_at_once_with_file_and_line(folder: Folder) -> None:
    folder.rule(id="a.b.c", **{"class": "comm.no_such"})
    folder.rule(id="a.b.d", role="culprit")
    folder.rule(id="a.b.e", match="{any: ['(unclosed']}")
    folder.rule(id="a.b.f", marks="[finished]")
    folder.rule(id="a.b.g", table="{name: xid, key: code}")
    folder.rule(id="a.b.h", specificty="50")
    folder.add("signatures/broken.yaml", "signatures:\n  - id: [\n")
    with pytest.raises(RulesError) as caught:
        load([folder.path])
    found = {(Path(f.path).name, f.code, f.line) for f in caught.value.findings}
    assert found == {
        ("a.b.c.yaml", "R002", 4),
        ("a.b.d.yaml", "R001", 5),
        ("a.b.e.yaml", "R004", 6),
        ("a.b.f.yaml", "R003", 9),
        ("a.b.g.yaml", "R006", 9),
        ("a.b.h.yaml", "R001", 2),
        ("broken.yaml", "R007", 3),
    }
    assert "a.b.d.yaml:5" in str(caught.value)
    assert "specificty" in str(caught.value)


def test_what_is_sound_can_be_used_beside_what_is_not(folder: Folder) -> None:
    folder.rule().rule(id="a.b.c", role="culprit")
    rules, findings = examine([folder.path])
    assert [s.id for s in rules.signatures] == ["nccl.net.peer_reset"]
    assert [f.signature for f in findings] == ["a.b.c"]


def test_a_doubled_key_and_a_doubled_id_are_findings(folder: Folder) -> None:
    folder.rule()
    folder.add("signatures/again.yaml", (folder.path / "signatures/nccl.net.peer_reset.yaml").read_text())
    folder.add("signatures/twice.yaml", "signatures: []\nsignatures: []\n")
    _, findings = examine([folder.path])
    assert {f.code for f in findings} == {"R005", "R007"}


def test_signature_fields_and_defaults(xid_folder: Folder) -> None:
    rules = load([xid_folder.path])
    xid = rules.by_id["kernel.xid.event"]
    assert (xid.index, xid.emitter, xid.role, xid.specificity) == (0, "kernel", Role.ROOT, 60)
    assert xid.sources == {Source.KERNEL_LOG}
    assert xid.explains[0].classes == ("comm.*",)
    assert rules.taxonomy["gpu_hw.off_bus"].domain is Domain.INFRASTRUCTURE
    assert rules.taxonomy["gpu_hw.off_bus"].alias == ("xid_79",)
    assert rules.tables["xid"].date == "2026-08"


@pytest.mark.parametrize(
    ("xid", "failure_class", "role", "specificity"),
    [
        ("79", "gpu_hw.off_bus", Role.ROOT, 90),
        ("31", "gpu_program.illegal_memory_access", Role.ROOT, 60),
        ("92", None, Role.NOISE, 60),
        ("999", "gpu_hw.driver_fault", Role.ROOT, 60),  # no row: the rule's own word
    ],
)
def test_a_table_row_overrides_by_captured_value(
    xid_folder: Folder, xid: str, failure_class: str | None, role: Role, specificity: int
) -> None:
    rules = load([xid_folder.path])
    signature = rules.signatures[0]
    text = f"NVRM: Xid (PCI:0000:38:00): {xid}, pid=1"
    line = Line(place=Place(path="k", line=1, offset=0, source=Source.KERNEL_LOG), text=text, raw=text)
    fields = signature.find(text)
    assert fields is not None
    match = rules.match(signature, line, fields)
    assert (match.failure_class, match.role, match.specificity) == (failure_class, role, specificity)


def test_overlay_replaces_by_id_adds_rows_and_switches(xid_folder: Folder, tmp_path: Path) -> None:
    xid_folder.rule().rule(id="nccl.net.other")
    site = tmp_path / "site"
    site.mkdir()
    (site / "ours.yaml").write_text(XID.replace("title: Xid event", "title: Our Xid event"))
    (site / "more.yaml").write_text(TABLE.replace('"79": {class: gpu_hw.off_bus', '"95": {class: gpu_hw.driver_fault'))
    (site / "overrides.yaml").write_text("disable: [nccl.net.other]\nshadow: [nccl.net.peer_reset]\n")
    rules = load([xid_folder.path, site])
    assert [s.id for s in rules.signatures] == ["kernel.xid.event", "nccl.net.peer_reset"]
    assert rules.by_id["kernel.xid.event"].title == "Our Xid event"
    assert set(rules.tables["xid"].rows) == {"79", "31", "92", "95"}
    assert rules.by_id["nccl.net.peer_reset"].shadow
    (site / "overrides.yaml").write_text("disable: [nccl.net.gone]\n")
    with pytest.raises(RulesError, match="R023"):
        load([xid_folder.path, site])


def test_a_cached_start_gives_the_same_rules(xid_folder: Folder) -> None:
    first = load([xid_folder.path])
    second = load([xid_folder.path])
    assert first.lines
    assert not second.lines  # came from the cache
    assert first.signatures == second.signatures
    assert first.tables == second.tables
    assert first.taxonomy == second.taxonomy
    assert first.digest == second.digest


def test_a_damaged_or_unwritable_cache_costs_time_only(
    xid_folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load([xid_folder.path])
    for entry in (tmp_path / "cache" / "recovery").iterdir():
        entry.write_bytes(b"{")
    assert load([xid_folder.path]).digest == first.digest
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no-such")
    assert load([xid_folder.path]).digest == first.digest


def test_the_digest_follows_meaning_not_wording(folder: Folder) -> None:
    digest = load([folder.rule().path]).digest
    assert load([folder.rule(title="Another title").path]).digest == digest
    assert load([folder.rule(specificity="51").path]).digest != digest
    assert load([folder.rule(match="{any: ['Connection reset']}").path]).digest != digest


def test_a_missing_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no such folder"):
        load_rules([tmp_path / "nowhere"])


def test_the_published_schema_is_valid_and_takes_every_shipped_file() -> None:
    schema = json.loads((rules_dir() / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator({"$ref": "#/$defs/table", "$defs": schema["$defs"]})
    for path in sorted((rules_dir() / "tables").glob("*.yaml")):
        assert [e.message for e in validator.iter_errors(yaml.safe_load(path.read_text()))] == []
