from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
import zstandard
from typer.testing import CliRunner

from attribution.bundle import load, make, read, replay, write
from attribution.cli.bundle import bundle
from attribution.cli.bundle import replay as replay_command
from attribution.model import Evidence, SourceError, to_plain
from attribution.report.json import diagnosis_document
from tests.make import analyzer, evidence_of, results

app = typer.Typer()
app.command("bundle")(bundle)
app.command("replay")(replay_command)


@pytest.fixture
def logs(samples: Path) -> list[Path]:
    return sorted(samples.glob("*.log"))


def test_every_sample_gives_the_same_verdict_again_bit_for_bit(tmp_path, logs):
    for log in logs:
        result = results(log)[-1]
        made = make(result.evidence, analyzer())
        assert made.document == diagnosis_document(result.evidence.attempt, result.diagnosis, result.advice), log.name
        write(made, tmp_path / "b.tar.zst")
        held = read(tmp_path / "b.tar.zst")
        # As JSON, since a loss that is NaN equals nothing.
        assert json.dumps(to_plain(held)) == json.dumps(to_plain(made))
        again = replay(held, analyzer())
        assert (again.differences, again.notes) == ((), ()), log.name


def test_evidence_comes_back_whole(logs):
    for log in logs:
        evidence = results(log)[-1].evidence
        assert to_plain(load(Evidence, to_plain(evidence))) == to_plain(evidence)


def test_the_same_bundle_is_the_same_bytes(tmp_path, samples):
    evidence = results(samples / "slurm-oom-killed.log")[-1].evidence
    for name in ("a", "b"):
        write(make(evidence, analyzer()), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_no_secret_is_in_it_and_cited_lines_are(tmp_path):
    secret = "hf_abcdefghijklmnopqrstuvwxyzABCDEF"
    text = f"export HF_TOKEN={secret}\nRuntimeError: CUDA out of memory {secret}\nTraceback for {secret}\n"
    made = make(evidence_of(tmp_path, text), analyzer())
    write(made, tmp_path / "b")
    data = zstandard.ZstdDecompressor().decompress((tmp_path / "b").read_bytes(), max_output_size=1 << 24)
    assert secret.encode() not in data
    assert b"[hub token]" in data
    root = made.document["root"]
    assert any(line.startswith(f"{root['line']}: ") for line in made.spans[f"{root['path']}:{root['line']}"])


@pytest.mark.parametrize("data", [b"", b"no bundle", zstandard.compress(b"x" * 4096), zstandard.compress(b"")])
def test_what_is_no_bundle_is_refused_in_words(tmp_path, data):
    (tmp_path / "b").write_bytes(data)
    with pytest.raises(SourceError, match="no bundle"):
        read(tmp_path / "b")


def test_a_changed_verdict_is_noticed(tmp_path, samples):
    made = make(results(samples / "slurm-oom-killed.log")[-1].evidence, analyzer())
    made.document["class"] = "storage.disk_full"  # type: ignore[index]
    assert replay(made, analyzer()).differences == ("class",)


def test_on_the_command_line(tmp_path, samples):
    out = tmp_path / "case.tar.zst"
    assert CliRunner().invoke(app, ["bundle", str(samples / "slurm-oom-killed.log"), "-o", str(out)]).exit_code == 0
    again = CliRunner().invoke(app, ["replay", str(out)])
    assert again.exit_code == 0
    assert "bit for bit" in again.output
