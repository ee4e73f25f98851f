"""Minimums of sub-groups of jobs: KAI's trees and the policies of Volcano."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler_batch.model.sub_groups import has_minimum, parts_shortage
from pyscheduler_batch.model.tasks import ACTIVE, Job, SubGroup, Task, TaskState

TREE = [SubGroup(name="r", min_sub_group=1), *(SubGroup(name=name, parent="r", min_member=2) for name in "ab")]
POLICY = [SubGroup(name="tp", min_member=2, min_sub_group=1, is_policy=True)]


def job_with(sub_groups: list[SubGroup], bound: list[str], *, minimum: int = 3) -> Job:
    """Return a job with one bound task for each entry, which names its sub-group, and a pending one."""
    job = Job(
        uid="j", key="default/j", queue="q", min_member=minimum, sub_groups={each.name: each for each in sub_groups}
    )
    for number, name in enumerate([*bound, "pending"]):
        state = TaskState.PENDING if name == "pending" else TaskState.BOUND
        job.add(Task(uid=str(number), job=job, request=np.zeros(1), state=state, sub_group=name))
    return job


@pytest.mark.parametrize(
    ("sub_groups", "bound", "expected"),
    [
        (TREE, ["a", "a"], True),  # the minimum of the job itself has no effect
        (TREE, ["a", "b"], False),
        (POLICY, ["tp/1", "tp/1", ""], True),
        (POLICY, ["tp/1", "tp/1"], False),
        (POLICY, ["tp/1", "tp/2", ""], False),
    ],
)
def test_a_job_has_its_minimum_if_enough_sub_groups_have_theirs(
    sub_groups: list[SubGroup], bound: list[str], expected: bool
) -> None:
    """In KAI the tree alone decides, in Volcano the minimum of the job as well."""
    assert has_minimum(job_with(sub_groups, bound), ACTIVE) is expected


def test_messages_name_the_sub_groups_that_are_short() -> None:
    """Sub-groups that are not needed are not named once enough others are complete."""
    counts = {"a": 1, "b": 0}
    assert parts_shortage(job_with(TREE, []), counts) == "r: 0 of 1 sub-groups (a 1/2, b 0/2)"
    assert parts_shortage(job_with(TREE, []), {"a": 2}) == ""
    assert parts_shortage(job_with([], []), counts) == ""
