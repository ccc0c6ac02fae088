"""The store: what was committed is there whole, what was not is not there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import polars as pl
import pytest

from attribution.analyze import Options
from attribution.model import StoreError
from attribution.report.json import advice_document, diagnosis_document
from attribution.result import Result
from attribution.sources.discover import discover
from attribution.store import Store
from attribution.store.compact import compact
from attribution.store.manifest import Input
from attribution.tables import STORE_VERSION, TABLES
from attribution.workers import run_jobs


def documents(results: tuple[Result, ...]) -> list[tuple[str, str]]:
    return [
        (
            orjson.dumps(diagnosis_document(r.evidence.attempt, r.diagnosis, r.advice)).decode(),
            orjson.dumps(advice_document(r.advice)).decode(),
        )
        for r in results
    ]


def fill(store: Store, paths: list[Path], run_id: str | None = None) -> None:
    found = discover([str(p) for p in paths])
    with store.writer(rules="r", engine="e", run_id=run_id) as w:
        for job, results in run_jobs(found, Options(), jobs=1):
            w.add(results, documents(results), [i for f in job.files if (i := Input.of(f.path))])
            w.commit()


@pytest.fixture
def logs(samples: Path) -> list[Path]:
    return [
        samples / "slurm-oom-killed.log",
        samples / "deepspeed-rank-killed.log",
        samples / "healthy" / "nanogpt.log",
    ]


def test_what_goes_in_comes_out(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs)
    frame = store.sql("select class, count(*) n from diagnoses group by 1 order by 1")
    assert frame["class"].to_list() == ["healthy.completed", "host_memory.oom_killed", "unknown.process_killed"]
    assert store.verify() == []
    lines = store.sql("select sum(count) from template_counts where attempt_id = 'deepspeed-rank-killed.0'").item()
    assert lines == sum(1 for line in logs[1].read_bytes().replace(b"\r", b"\n").split(b"\n") if line)
    assert store.document("deepspeed")["class"] == "unknown.process_killed"


def test_unchanged_files_are_known_and_changed_ones_are_not(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    copy = tmp_path / "job.log"
    copy.write_bytes(logs[0].read_bytes())
    fill(store, [copy])
    assert store.seen([str(copy)], rules="r", engine="e") == {str(copy)}
    assert store.seen([str(copy)], rules="other", engine="e") == frozenset()
    with copy.open("ab") as f:
        f.write(b"one more line\n")
    assert store.seen([str(copy)], rules="r", engine="e") == frozenset()


def test_a_fifo_is_no_input_that_could_be_unchanged(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert Input.of(str(tmp_path / "fifo")) is None
    assert Input.of(str(tmp_path)) is None


def test_a_new_analysis_supersedes_and_history_stays(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs, "run-1")
    fill(store, logs, "run-2")
    assert store.sql("select count(*) from diagnoses").item() == 3
    assert store.sql("select count(*) from diagnoses_history").item() == 6
    assert store.sql("select distinct run_id from matches")["run_id"].to_list() == ["run-2"]


def test_compaction_changes_no_answer(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs, "run-1")
    fill(store, logs, "run-2")
    question = "select attempt_id, class, run_id from diagnoses order by 1"
    before = store.sql(question)
    assert compact(store, now_s=time.time() + 3600) == (6, 1)
    assert store.sql(question).equals(before)
    assert store.sql("select count(*) from diagnoses_history").item() == 6
    assert store.verify() == []


def test_a_wrong_query_names_the_tables(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="attempts, matches, templates"):
        Store(tmp_path / "s", create=True).sql("select * from jobs")


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "copy (select 1) to '/tmp/x.csv'",
        "copy (select 1) to '{store}/attempts/x.parquet'",
        "explain analyze copy (select 1) to '{store}/x.csv'",
        "select 1; select 2",
        "set enable_external_access = true",
        "install httpfs",
        "",
    ],
)
def test_a_query_reaches_nothing_outside_and_writes_nothing(tmp_path: Path, query: str) -> None:
    store = Store(tmp_path / "s", create=True)
    before = sorted((tmp_path / "s").rglob("*"))
    with pytest.raises(StoreError):
        store.sql(query.format(store=store.path))
    assert sorted((tmp_path / "s").rglob("*")) == before


def test_two_runs_at_once_give_an_id_to_one_template_only(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    one = store.writer(rules="r", engine="e", run_id="run-1")
    two = store.writer(rules="r", engine="e", run_id="run-2")
    for writer, log in ((one, logs[0]), (two, logs[1]), (one, logs[2])):
        for _, results in run_jobs(discover([str(log)]), Options(), jobs=1):
            writer.add(results, documents(results), [])
        writer.commit()
    born = store.sql("select template_id, count(distinct exemplar) n from templates_history group by 1")
    assert born["n"].max() == 1
    assert store.sql("select count(*) - count(distinct template_id) from templates").item() == 0


def test_a_template_whose_text_changed_has_one_newest_text(tmp_path: Path) -> None:
    store = Store(tmp_path / "s", create=True)
    for number, word in enumerate(("alpha", "beta", "gamma")):
        log = tmp_path / f"{number}.log"
        log.write_text(f"the loader of {word} data is ready now\n")
    with store.writer(rules="r", engine="e", run_id="run-1") as w:
        for _, results in run_jobs(discover([str(tmp_path / f"{n}.log") for n in range(3)]), Options(), jobs=1):
            w.add(results, documents(results), [])
            w.commit()
    assert store.sql("select count(*) from templates_history").item() > 1
    assert [t.text for t in store.templates()] == ["the loader of <*> data is ready now"]
    compact(store)
    assert [t.text for t in store.templates()] == ["the loader of <*> data is ready now"]


def test_matches_know_the_template_of_their_line(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs)
    frame = store.sql(
        "select m.text, t.template, t.exemplar from matches m left join templates t using (template_id) where role = 'root'"
    )
    assert frame.height
    assert frame["template"].null_count() == 0


def test_files_of_an_older_version_read_as_null_in_columns_that_were_added(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs, "run-1")
    for old in sorted((store.path / "diagnoses").glob("*.parquet")):
        pl.read_parquet(old).drop("entity", "root_time_s").write_parquet(old)
    assert store.sql("select entity from diagnoses")["entity"].null_count() == 3
    fill(store, logs[:1], "run-2")
    assert store.sql("select count(*) from diagnoses where entity is null").item() >= 2
    compact(store)
    assert store.sql("select count(*) from diagnoses_history").item() == 4


def test_a_damaged_file_is_named_and_the_way_out_too(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs[:1])
    next((store.path / "matches").glob("*.parquet")).unlink()
    with pytest.raises(StoreError, match="recovery store verify"):
        store.sql("select * from matches")
    assert any("matches/" in p for p in store.verify())


def test_readers_of_a_moment_ago_keep_their_files_through_a_compaction(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs)
    files = [store.path / f for m in store.manifests() for f in m.files]
    for path in (*files, *(store.path / "runs").glob("*.json")):
        os.utime(path, (1, 1))  # written long ago
    assert compact(store) == (3, 1)
    assert all(path.exists() for path in files)
    compact(store, now_s=time.time() + 3600)
    assert not any(path.exists() for path in files)


def test_labels_outlive_a_new_analysis_and_the_newest_counts(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs, "run-1")
    attempt = store.attempt_id("deepspeed")
    store.label(attempt, {"class": "host_memory.oom_killed"}, by="person:ada", now_s=1.0)
    store.label(
        attempt, {"class": "hardware.gpu", "note": "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz"}, by="person:ada", now_s=2.0
    )
    fill(store, logs, "run-2")
    frame = store.sql("select field, value from labels order by 1")
    assert frame.rows() == [("class", "hardware.gpu"), ("note", "HF_TOKEN=[hub token]")]
    assert store.sql("select count(*) from labels_history").item() == 3


@pytest.mark.parametrize("values", [{"colour": "red"}, {"outcome": "bad"}])
def test_a_label_that_means_nothing_is_refused(tmp_path: Path, logs: list[Path], values: dict[str, str]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs[:1])
    with pytest.raises(StoreError, match="use"):
        store.label(store.sql("select attempt_id from attempts").item(), values, by="person:ada", now_s=1.0)


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="folder of its own"):
        Store(tmp_path / "file", create=True)


def test_an_empty_store_answers(tmp_path: Path) -> None:
    store = Store(tmp_path / "s", create=True)
    for name in TABLES:
        assert store.sql(f"select count(*) from {name}").item() == 0


def test_no_store_and_a_newer_store_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        Store(tmp_path / "nothing")
    Store(tmp_path / "s", create=True)
    (tmp_path / "s" / "version.json").write_bytes(orjson.dumps({"store": STORE_VERSION + 1}))
    with pytest.raises(StoreError, match="newer"):
        Store(tmp_path / "s")


def test_a_reader_sees_whole_units_while_a_writer_appends(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs[:1])
    (store.path / "attempts" / "half-00000.parquet").write_bytes(b"PAR1 half written")
    assert store.sql("select count(*) from attempts").item() == 1
    assert any("no committed run" in p for p in store.verify())


@pytest.mark.parametrize("seed", range(4))
def test_killed_anywhere_the_store_holds_whole_attempts_and_the_next_run_completes_it(
    tmp_path: Path, samples: Path, seed: int, undisturbed: list[tuple[str, ...]]
) -> None:
    folder = tmp_path / "s"
    script = "from tests.store.test_store import *; from pathlib import Path; import sys\nfill(Store(sys.argv[1], create=True), sorted(Path(sys.argv[2]).glob('*.log')))"
    child = subprocess.Popen([sys.executable, "-c", script, str(folder), str(samples)])
    time.sleep(0.7 + random.Random(seed).random() * 1.6)
    child.send_signal(signal.SIGKILL)
    child.wait()
    if not (folder / "version.json").exists():
        return  # killed before the store was made
    store = Store(folder)
    whole = "select a.attempt_id from attempts a join diagnoses d using (attempt_id, run_id) join advice v using (attempt_id, run_id)"
    assert store.sql(whole).height == store.sql("select * from attempts").height
    assert [p for p in store.verify() if "no committed run" not in p] == []
    fill(store, sorted(samples.glob("*.log")))
    assert content(store) == undisturbed


def content(store: Store) -> list[tuple[str, ...]]:
    """What a store says, run ids and template ids aside."""
    diagnoses = store.sql("select attempt_id, document from diagnoses order by 1").rows()
    matches = store.sql("select attempt_id, path, line, signature, text from matches order by all").rows()
    lines = store.sql("select attempt_id, sum(count) from template_counts group by 1 order by 1").rows()
    return [*diagnoses, *matches, *lines]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> list[tuple[str, ...]]:
    store = Store(tmp_path_factory.mktemp("undisturbed") / "s", create=True)
    fill(store, sorted(samples.glob("*.log")))
    return content(store)


def test_readers_meet_no_error_while_others_write_and_compact(tmp_path: Path, logs: list[Path]) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs)
    (job,) = run_jobs(discover([str(logs[0])]), Options(), jobs=1)
    seen: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(store.sql("select count(*) from diagnoses_history").item())
            assert store.sql("select count(*) from diagnoses").item() == 3

    def write(run: str) -> None:
        for n in range(12):
            with store.writer(rules="r", engine="e", run_id=f"{run}-{n:02d}") as w:
                w.add(job[1], documents(job[1]), [])

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read)]
        writers = [pool.submit(write, run) for run in ("run-1", "run-2")]
        while not all(w.done() for w in writers):
            compact(store)
        done.set()
        for future in (*writers, *readers):
            future.result()
    assert seen == sorted(seen)
    assert store.sql("select count(*) from diagnoses_history").item() == 3 + 24
    compact(store, now_s=time.time() + 3600)
    assert store.verify() == []


class Killed(BaseException):
    """Stands for kill -9: nothing that the program does catches it."""


def killed_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """The process ends at the `step`-th write that is made durable."""
    left = iter(range(step))
    real = os.fsync

    def fsync(fd: int) -> None:
        if next(left, None) is None:
            raise Killed
        real(fd)

    patch.setattr(os, "fsync", fsync)


def test_killed_at_every_step_of_a_commit_and_of_a_compaction_the_store_says_the_same(
    tmp_path: Path, logs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "s", create=True)
    fill(store, logs[:2], "run-1")
    before = content(store)
    whole = Store(tmp_path / "whole", create=True)
    fill(whole, logs, "run-1")
    after = content(whole)
    (more,) = run_jobs(discover([str(logs[2])]), Options(), jobs=1)
    steps = 0
    for act in ("commit", "compact"):
        for step in range(64):
            with monkeypatch.context() as patch:
                killed_at(patch, step)
                try:
                    if act == "compact":
                        compact(store)
                    else:
                        writer = store.writer(rules="r", engine="e", run_id=f"run-2-{step:02d}")
                        writer.add(more[1], documents(more[1]), [])
                        writer.commit()
                except Killed:
                    steps += 1
                    assert content(store) in ((before, after) if act == "commit" else (after,))
                    assert [p for p in store.verify() if "no committed run" not in p] == []
                    continue
            assert content(store) == after
            break
    assert steps > 20
    assert store.sql("select count(*) from attempts").item() == 3
    compact(store, now_s=time.time() + 3600)
    assert store.verify() == []


def test_frames_are_polars(tmp_path: Path) -> None:
    assert isinstance(Store(tmp_path / "s", create=True).sql("select 1 as x"), pl.DataFrame)
    assert [p.name for p in (tmp_path / "s").iterdir()] == ["version.json"]
