from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from attribution.cli.config import app
from attribution.config import SETTINGS, Settings, load_settings, plain, schema
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
