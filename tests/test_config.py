from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import typer
from typer.testing import CliRunner

from attribution.cli.app import app as whole
from attribution.cli.config import app, default_map
from attribution.config import SETTINGS, Settings, load_settings, plain, schema, settings
from attribution.model import ConfigError

ROOT = Path(__file__).parent.parent


def load(folder: Path, **more):
    env = {"XDG_CONFIG_HOME": str(folder / "xdg"), **more.pop("env", {})}
    return load_settings(env=env, folder=folder, site=folder / "site.toml", **more)


def test_every_setting_has_a_default_and_says_so(tmp_path):
    loaded = load(tmp_path)
    assert loaded.settings.store == Path("recovery-store")
    assert {str(o) for o in loaded.origins.values()} == {"default"}
    assert [s.name for s in SETTINGS] == list(Settings.__dataclass_fields__)


def test_the_nearest_word_wins_and_is_named(tmp_path):
    (tmp_path / "site.toml").write_text("jobs = 1\ncluster = 'site'\nengine = 'python'\npoll_s = 5\n")
    user = tmp_path / "xdg" / "recovery" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text("jobs = 2\ncluster = 'user'\nengine = 'hyperscan'\n")
    (tmp_path / "recovery.toml").write_text("jobs = 3\ncluster = 'project'\n")
    loaded = load(tmp_path, env={"RECOVERY_JOBS": "4", "RECOVERY_CLUSTER": "env"}, flags={"jobs": 5, "mine": None})
    assert (loaded.settings.jobs, loaded.settings.cluster) == (5, "env")
    assert (loaded.settings.engine, loaded.settings.poll_s) == ("hyperscan", 5.0)
    kinds = {name: loaded.origins[name].kind for name in ("jobs", "cluster", "engine", "poll_s", "mine")}
    assert kinds == {"jobs": "flag", "cluster": "env", "engine": "user", "poll_s": "site", "mine": "default"}


def test_a_project_file_above_counts_and_its_paths_are_relative_to_it(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.recovery]\nrules = ['site-rules']\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    loaded = load_settings(env={}, folder=below, site=tmp_path / "none.toml")
    assert loaded.settings.rules == (tmp_path.resolve() / "site-rules",)
    assert loaded.origins["rules"].place.endswith("pyproject.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jbos = 3", "did you mean 'jobs'"),
        ("engine = 're3'", "auto, hyperscan, python"),
        ("jobs = -1", "0 or more"),
        ("jobs = true", "not a whole number"),
        ("poll_s = nan", "too small"),
        ("rules = 'one'", "not a list of paths"),
        ("jobs = ", "TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path, text, says):
    (tmp_path / "recovery.toml").write_text(text)
    with pytest.raises(ConfigError) as error:
        load(tmp_path)
    assert says in str(error.value)
    assert "recovery.toml" in str(error.value)


def test_a_wrong_variable_is_named(tmp_path):
    with pytest.raises(ConfigError, match="RECOVERY_JOBS"):
        load(tmp_path, env={"RECOVERY_JOBS": "many"})


def test_the_published_schema_is_the_one_in_force():
    path = ROOT / "docs" / "reference" / "config.schema.json"
    assert json.loads(path.read_text()) == json.loads(json.dumps(schema()))
    jsonschema.validate({"jobs": 2, "rules": ["a"]}, schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"jbos": 2}, schema())


def test_the_reference_page_names_every_setting():
    page = (ROOT / "docs" / "reference" / "config.md").read_text()
    for s in SETTINGS:
        assert f"| `{s.name}` | `{s.variable}` |" in page


def test_config_show_tells_values_and_origins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOVERY_CLUSTER", "alps")
    shown = CliRunner().invoke(app, ["show", "--origin", "--format", "json"])
    assert json.loads(shown.stdout)["cluster"] == {"value": "alps", "origin": "env RECOVERY_CLUSTER"}
    text = CliRunner().invoke(app, ["show", "--origin"]).stdout
    assert 'cluster = "alps"  # env RECOVERY_CLUSTER' in text


def test_plain_is_json(tmp_path):
    json.dumps(plain(load(tmp_path)))


def test_commands_take_what_a_file_sets_and_flags_still_win(tmp_path, monkeypatch):
    (tmp_path / "recovery.toml").write_text("store = 'kept'\njobs = 1\nmine = 'none'\nformat = 'csv'\npoll_s = 3\n")
    monkeypatch.delenv("RECOVERY_STORE", raising=False)
    known = default_map(typer.main.get_command(whole), load(tmp_path))
    assert known["analyze"] == {"store": str(tmp_path / "kept"), "format_": "csv", "jobs": 1, "mine": False}
    assert known["watch"] == {"interval": 3.0}
    assert known["store"]["info"] == {"store": str(tmp_path / "kept")}
    log = str(ROOT / "data" / "samples" / "slurm-oom-killed.log")
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    done = run.invoke(whole, ["analyze", log])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("attempt_id,job_id")
    assert (tmp_path / "kept" / "version.json").is_file()
    flag = run.invoke(whole, ["analyze", log, "--store", str(tmp_path / "flag"), "-f", "jsonl"])
    assert flag.output.startswith("{")
    assert (tmp_path / "flag" / "version.json").is_file()


def test_without_a_file_no_command_is_told_anything(tmp_path):
    assert default_map(typer.main.get_command(whole), load(tmp_path)) == {}


def test_every_setting_is_the_default_of_some_option(tmp_path):
    values = {"store": "s", "rules": ["r"], "policy": "p", "engine": "python", "redact": "personal", "format": "csv"}
    values |= {"jobs": 2, "poll_s": 3.5, "mine": "none", "cluster": "c"}
    assert sorted(values) == sorted(s.name for s in SETTINGS)
    (tmp_path / "recovery.toml").write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items()))
    known = default_map(typer.main.get_command(whole), load(tmp_path))
    told = {name for command in known.values() for name in command}
    assert {"store", "rules", "policy", "engine", "redact", "format_", "jobs", "interval", "mine", "cluster"} <= told
    assert "docs" not in known["rules"]


def test_settings_reads_this_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOVERY_CLUSTER", "alps")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings().cluster == "alps"
    assert settings(cluster="flag").cluster == "flag"
