from __future__ import annotations

from attribution.report.html.charts import families, mix, shares
from attribution.report.html.fleet import Fleet, Row, count


def row(number: int, **more: object) -> Row:
    values: dict[str, object] = {
        "id": f"{number}.0", "outcome": "failed", "failure_class": "gpu_hw.off_bus", "domain": "infrastructure",
        "status": "established", "confidence": 0.9, **more,
    }  # fmt: skip
    return Row(**values)  # type: ignore[arg-type]


HOUR = 3600.0


def test_gpu_hours_are_counted_only_where_gpus_and_times_are_known() -> None:
    fleet = count(
        [
            row(1, gpus=8, gpus_by="accounting", start_s=0.0, end_s=2 * HOUR),
            row(2, gpus=4, gpus_by="ranks", start_s=0.0, end_s=HOUR),
            row(3, gpus=8, start_s=None, end_s=HOUR),
        ]
    )
    [loss] = fleet.by_class
    assert (loss.gpu_hours, loss.attempts, loss.unknown) == (20.0, 3, 1)
    assert fleet.gpus_from_ranks == 1


def test_a_node_that_failed_once_in_one_does_not_lead_one_that_failed_nine_times_in_ten() -> None:
    rows = [row(i, nodes=("bad",), blamed=("bad",) if i else ()) for i in range(10)]
    fleet = count([*rows, row(99, nodes=("unlucky",), blamed=("unlucky",))])
    assert [n.node for n in fleet.nodes] == ["bad", "unlucky"]
    assert (fleet.nodes[0].blamed, fleet.nodes[0].attempts) == (9, 10)


def test_a_programs_own_mistake_does_not_blame_the_node() -> None:
    fleet = count([row(1, domain="workload", nodes=("gpu-1",), blamed=("gpu-1",))])
    assert fleet.nodes == ()


def test_attempts_with_one_fingerprint_are_one_root_that_came_back() -> None:
    fleet = count([row(1, fingerprint="f", root_text="x"), row(2, fingerprint="f"), row(3, fingerprint="g")])
    [repeat] = fleet.repeats
    assert repeat.attempts == ("1.0", "2.0")


def test_days_without_failures_stay_in_the_chart() -> None:
    fleet = count([row(1, end_s=0.0), row(2, end_s=3 * 86400.0), row(3)])
    assert [(p.label, p.attempts) for p in fleet.periods] == [
        ("1970-01-01", 1), ("1970-01-02", 0), ("1970-01-03", 0), ("1970-01-04", 1),
    ]  # fmt: skip
    assert fleet.undated == 1


def test_families_beyond_the_colours_are_drawn_together_and_lose_nobody() -> None:
    fleet = count([row(i, failure_class=f"family{i}.x", end_s=0.0) for i in range(12)])
    names = families(fleet.periods)
    assert len(names) == 8
    assert names[-1] == "other"
    assert sum(shares(fleet.periods[0], names)) == 12


def test_running_and_cancelled_hours_are_exposure_without_failure() -> None:
    fleet = count(
        [
            row(1, outcome="cancelled", gpus=8, start_s=0.0, end_s=HOUR),
            row(2, outcome="failed", gpus=8, start_s=0.0, end_s=HOUR),
            row(3, outcome="failed", gpus=None, start_s=0.0, end_s=HOUR),
        ]
    )
    [size] = fleet.sizes
    assert (size.label, size.attempts, size.failures, size.mttf) == ("2 to 8", 2, 1, 2.0)
    assert fleet.unsized == 1


def test_an_empty_store_makes_empty_numbers() -> None:
    assert count([]) == Fleet(rows=())
    assert "Failures over time" in mix(())
