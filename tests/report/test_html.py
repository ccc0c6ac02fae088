from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from attribution.cli.report import report
from attribution.model import Place, ProgressPoint, StoreError
from attribution.report.html import attempt_report, charts, store_report
from attribution.report.html.detail import Mark, commands, timeline
from attribution.store import Store
from tests.make import points

_VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags and attributes of a page; complains where tags do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(store: Path) -> str:
    return store_report(Store(store), now_s=0.0)


def test_the_overview_has_every_section_and_every_link_has_its_place(page: str) -> None:
    tags = Page(page).tags
    ids = {a["id"] for _, a in tags if "id" in a}
    assert {"mix", "loss", "mttf", "nodes", "repeats", "unexplained", "advice", "attempts"} <= ids
    links = [a["href"] for t, a in tags if t == "a"]
    assert links
    assert all(x and x.startswith("#") and x[1:] in ids for x in links)
    assert len(ids) == sum("id" in a for _, a in tags)


def test_the_page_loads_nothing_and_runs_nothing(page: str) -> None:
    tags = Page(page).tags
    assert {t for t, _ in tags}.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "form"})
    assert not [k for _, a in tags for k in a if k.startswith("on") or k == "src" or k == "style"]
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_hostile_text_stays_text(page: str) -> None:
    assert "&lt;svg onload=alert(3)&gt;" in page
    assert "\x1b" not in page
    assert "\x07" not in page
    assert not [t for t, a in Page(page).tags if t == "b" and a]


def test_planted_secrets_are_not_in_the_page(page: str) -> None:
    assert "hf_abcdefghijkl" not in page
    assert "sk-abcdefghijkl" not in page
    assert "[api key]" in page


def test_the_same_store_gives_the_same_page(store: Path, page: str) -> None:
    assert store_report(Store(store), now_s=0.0) == page


def test_one_attempt_shows_its_story(store: Path) -> None:
    text = attempt_report(Store(store), "nanogpt-dtype", points=points(range(10)))
    for wanted in (
        "user_code.dtype_or_device_mismatch", "rank 3", "Timeline", "Progress", "Why, and why not", "recovery explain",
        "mat1 and mat2 must have the same dtype",
    ):  # fmt: skip
        assert wanted in text
    Page(text)


def test_without_its_log_an_attempt_says_that_there_is_no_curve(store: Path) -> None:
    assert "No progress curve" in attempt_report(Store(store), "nanogpt-dtype")


def test_an_unknown_attempt_is_an_error(store: Path) -> None:
    with pytest.raises(StoreError, match="no attempt 'nothing'"):
        attempt_report(Store(store), "nothing")


def test_the_command_reads_the_log_again_for_the_curve(store: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(report)
    out = tmp_path / "a.html"
    result = CliRunner().invoke(app, [str(store), "-o", str(out), "--attempt", "nanogpt-dtype"])
    assert result.exit_code == 0, result.output
    assert "loss by step" in out.read_text()


def mark(line: int, **more: object) -> Mark:
    values: dict[str, object] = {
        "role": "cascade", "episode": 0, "signature": "s", "path": "p", "line": line, "lane": "rank 0", "text": "t", **more,
    }  # fmt: skip
    return Mark(**values)  # type: ignore[arg-type]


def test_lanes_are_ranks_in_order_then_the_rest_and_the_roots_lane_is_never_left_out() -> None:
    marks = [mark(i, lane=f"rank {i}") for i in range(100)]
    laid = timeline([*marks, mark(5, lane="host gpu-1"), mark(1, lane="rank 777", role="root")])
    assert len(laid.lanes) == 48
    assert laid.lanes[0] == "rank 0"
    assert laid.lanes[-1] == "rank 777"
    assert laid.left_out == 54


def test_marks_without_stamps_are_laid_out_by_line() -> None:
    laid = timeline([mark(9), mark(3, role="root")])
    assert not laid.timed
    assert [m.line for _, m in laid.marks] == [3, 9]
    assert "order of lines" in charts.timeline(laid)


def test_a_restart_inside_an_attempt_breaks_the_curve() -> None:
    drawn = charts.curve([*points(range(5, 10)), *points(range(7, 12))])
    assert drawn is not None
    [path] = re.findall(r'd="([^"]+)" class="curve"', drawn)
    assert path.count("M") == 2


def test_a_loss_that_is_not_finite_is_told_not_drawn() -> None:
    bad = ProgressPoint(place=Place(path="p", line=1, offset=0), dialect="d", step=99, loss=float("nan"))
    drawn = charts.curve([*points(range(5)), bad])
    assert drawn is not None
    assert "loss not finite from step 99" in drawn
    assert "nan" not in drawn


def test_commands_quote_what_logs_name() -> None:
    document = {
        "attempt": {"id": "$(reboot).0"},
        "root": {"path": "a; rm -rf ~", "line": 3},
        "advice": {"exclude_nodes": ["gpu-1"], "commands": []},
    }
    told = [c for _, c in commands(document, "s")]
    assert told[0] == "recovery explain '$(reboot).0' --store s"
    assert "less +3 -- 'a; rm -rf ~'" in told
    assert "sbatch --exclude=gpu-1 JOB_SCRIPT" in told


@pytest.mark.browser
@pytest.mark.parametrize("wide", [1100, 400])
def test_a_browser_shows_it_without_a_word_of_complaint(chromium: str, page: str, tmp_path: Path, wide: int) -> None:
    path = tmp_path / "report.html"
    path.write_text(page)
    shot = tmp_path / "shot.png"
    done = subprocess.run(
        [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--hide-scrollbars",
            f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={wide},1600", f"--screenshot={shot}", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=90, check=True,
    )  # fmt: skip
    assert shot.read_bytes().startswith(b"\x89PNG")
    assert shot.stat().st_size > 20_000
    assert "CONSOLE" not in done.stderr
