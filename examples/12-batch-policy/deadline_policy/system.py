"""The batch system `deadlines`: jobs in the order of their deadlines, with KAI's groups and queues."""

from __future__ import annotations

from typing import ClassVar

from pyscheduler_batch.status.reports import Reports
from pyscheduler_batch.system import Preset, System
from pyscheduler_kai.objects import JOBS, QUEUES

__all__ = ["Deadlines"]


class Deadlines(System):
    """Places the job whose deadline is next; jobs that have missed theirs make room. It writes no statuses."""

    preset = Preset(
        name="deadlines",
        scheduler_name="deadlines",
        actions=("next", "overdue"),
        tiers=(("deadline",),),
        known_actions={"next": ("annotation",), "overdue": ("annotation",)},
        known_policies={"deadline": ("annotation", "spareSeconds")},
        flags=(),
        kinds={},
    )
    actions: ClassVar = {"next": "deadline_policy.action:Next", "overdue": "deadline_policy.action:Overdue"}
    policies: ClassVar = {"deadline": "deadline_policy.policy:Deadline"}
    jobs, queues = JOBS, QUEUES
    reports = Reports()
