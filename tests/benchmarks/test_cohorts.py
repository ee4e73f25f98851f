"""Kueue's scalability test runs over HTTP, and its targets follow from Kueue's figures."""

from __future__ import annotations

import pytest

from benchmarks import cohorts
from benchmarks.cohort_shapes import SHAPES, SHORT
from benchmarks.rows import program_rows
from benchmarks.targets import derive, targets_of


def test_all_workloads_of_a_short_run_are_admitted_and_end() -> None:
    """Users, kubelets and the recorder are in the server's process; no kubelet rejects a pod."""
    figures = cohorts.measure("cohorts", short=True)
    assert figures["pods"] == SHORT.workloads == 64
    assert figures["problems"] == 0
    assert figures["passes"] > 0
    for each in SHORT.classes:
        # Between the first creation and the end of the run.
        assert 0 < figures[f"admission_{each.name}_seconds"] < figures["seconds"]
    # Each workload holds its cores at least while it runs.
    held = sum(each.count * each.cpu * each.run_seconds for each in SHORT.classes)
    assert figures["held_core_seconds"] >= held * SHORT.cohorts * SHORT.queues


@pytest.mark.parametrize(
    ("name", "workloads", "targets"),
    [
        ("cohorts", 15_000, ("<= 8.25 s", "<= 38.4 s", "<= 107.5 s", ">= 55.9 %")),
        ("cohorts-large", 50_000, ("<= 52.8 s", "<= 128.2 s", "<= 350.2 s", ">= 38.6 %")),
    ],
)
def test_targets_are_half_of_the_admission_times_of_kueue(name: str, workloads: int, targets: tuple[str, ...]) -> None:
    """The numbers of workloads are those of Kueue's generator."""
    shape = SHAPES[name]
    assert shape.workloads == workloads
    assert tuple(shape.targets.values()) == targets
    (row,) = [each for each in program_rows(short=False) if each.name == f"batch-{name}"]
    assert row.targets == shape.targets


def test_gangs_in_queues_are_compared_with_those_of_coscheduling() -> None:
    """The share is that of the same size, mode and specs."""
    found = {"Gangs/1000/http/equal": {"pods_per_second": 500.0}}
    found |= {
        f"{name}/1000/http/equal": {"pods_per_second": 400.0} for name in ("GangsInQueues", "GangsInVolcanoQueues")
    }
    derive(found)
    assert found["GangsInQueues/1000/http/equal"]["of_coscheduling"] == pytest.approx(0.8)
    assert found["GangsInVolcanoQueues/1000/http/equal"]["of_coscheduling"] == pytest.approx(0.8)
    assert "of_coscheduling" not in found["Gangs/1000/http/equal"]
    assert targets_of("GangsInQueues/1000/http/equal") == {"of_coscheduling": ">= 75 %"}
