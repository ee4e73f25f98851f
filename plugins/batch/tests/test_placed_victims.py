"""Victims that the same pass has placed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyscheduler_batch.contract import Action
from pyscheduler_batch.model.tasks import TaskState

if TYPE_CHECKING:
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_batch.model.session import Session
    from pyscheduler_lab.testing import BatchCluster


class Oust(Action):
    """Gives the room of the job `early`, which the pass has just placed, to the job `late`."""

    name: ClassVar[str] = "oust"

    async def run(self, session: Session) -> None:
        """Evict and promise."""
        tasks = {job.key: next(iter(job.tasks.values())) for job in session.jobs.values()}
        early, late = tasks.get("default/early"), tasks["default/late"]
        if early is not None and early.state == TaskState.BINDING and late.state == TaskState.PENDING:
            node, statement = early.node, session.statement()
            statement.evict(early, action=self.name, by=late.job)
            statement.pipeline(late, node)
            session.commit(statement)


def offers(registry: Registry) -> None:
    """Offer what this module defines."""
    registry.add_action("oust", f"{__name__}:Oust")


async def test_a_pod_that_was_just_placed_waits_if_another_job_gets_its_room(kai: BatchCluster) -> None:
    """It is neither bound nor deleted, and the promise of the other job is kept although no eviction ends."""
    kai.nodes(1, cpu="1")
    kai.queue("q")
    kai.job("early", "q", 1)
    kai.job("late", "q", 1)
    await kai.start("actions: 'allocate, oust'", register=offers)
    await kai.pass_time(3)
    assert {pod.name: pod.node_name for pod in kai.cluster.pods()} == {"early-0": "", "late-0": "n0"}
    assert not [event for event in kai.events("early") if event[1] == "Evict"]
