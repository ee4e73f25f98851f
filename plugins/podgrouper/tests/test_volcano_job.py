"""Jobs of Volcano: their minimum, and a sub-group for each task."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.podgrouper.tests.workloads import Json, error_of, group_of, item, minima, pod


def job(*tasks: Json, **spec: Any) -> Json:
    """Return a Volcano Job."""
    return item("batch.volcano.sh/v1alpha1", "Job", "train", spec={"tasks": list(tasks), **spec})


def task(name: str, replicas: int, **fields: Any) -> Json:
    """Return a task."""
    return {"name": name, "replicas": replicas, **fields}


def grouped(top: Json, name: str = "ps") -> Json:
    """Return the group of a pod of a task."""
    return group_of(pod(f"train-{name}-0", top, labels={"volcano.sh/task-spec": name}), objects=[top])


def test_each_task_is_a_sub_group() -> None:
    """If the job needs what its tasks need, each task has its own minimum: all of its pods, or `minAvailable`."""
    group = grouped(job(task("ps", 2, minAvailable=1), task("worker", 6), minAvailable=7), "worker")
    assert (group["name"], group["minMember"], group["podSubGroup"]) == ("pg-train-uid-train", 7, "worker")
    assert minima(group) == {"ps": 1, "worker": 6}


@pytest.mark.parametrize(
    ("top", "minimum"),
    [
        pytest.param(job(task("ps", 2), task("worker", 4), minAvailable=3), 3, id="less than the tasks need"),
        pytest.param(job(task("ps", 2), task("worker", 4), minAvailable=8), 8, id="more than the tasks need"),
        pytest.param(job(task("ps", 5)), 5, id="one task"),
        pytest.param(job(task("ps", 5, minAvailable=0), task("worker", 2)), 2, id="a task that nobody needs"),
        pytest.param(job(), 1, id="no task"),
    ],
)
def test_other_jobs_have_one_minimum(top: Json, minimum: int) -> None:
    """The pods of any task count towards the minimum of the job."""
    group = grouped(top)
    assert (group["minMember"], group["subGroups"], group["podSubGroup"]) == (minimum, [], None)


def test_tasks_without_a_name_have_the_names_of_volcano() -> None:
    """The first task without a name is `default0`; without `minAvailable`, the sum of the tasks counts."""
    nameless: Json = {"replicas": 3}
    group = grouped(job(nameless, task("worker", 1)), "default0")
    assert (group["minMember"], minima(group)) == (4, {"default0": 3, "worker": 1})


def test_a_pod_of_no_task_is_refused() -> None:
    """The message names the label."""
    top = job(task("ps", 1), task("worker", 1))
    assert 'in the label "volcano.sh/task-spec"' in error_of(pod("p", top), objects=[top])
