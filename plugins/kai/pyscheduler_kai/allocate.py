"""The action `allocate` of KAI: place waiting jobs on free resources.

Source: KAI-Scheduler, `actions/allocate`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from pyscheduler_batch.contract import ACTIVE, ALLOCATED, Action, TaskState
from pyscheduler_kai.cycle import Cycle, prepared_cycle
from pyscheduler_kai.placement import POD_SCHEDULING_ERRORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler_batch.contract import Session
    from pyscheduler_kai.gang import Gang

__all__ = ["Allocate"]


class Allocate(Action):
    """Place jobs in the order of queues; a job that got its minimum is queued again, for one task at a time.

    Argument `queueDepth`: how many jobs of a queue are considered; -1 for all.
    """

    name: ClassVar[str] = "allocate"
    steps: ClassVar[Mapping[str, str]] = {POD_SCHEDULING_ERRORS: "nodes"}

    async def run(self, session: Session) -> None:
        """Run the action."""
        cycle = await prepared_cycle(session)
        cycle.placement.forget_failures()
        depth = self.arguments.get("queueDepth")
        may_end = depth is None and not session.ledger.moved
        line = cycle.lines.waiting(depth=depth)
        #: The jobs that left the line, and those of them that came back.
        popped: dict[str, None] = {}
        back: dict[str, Gang] = {}
        while line:
            gang = line.pop()
            uid = gang.job.uid
            popped[uid] = None
            back.pop(uid, None)
            if await _allocate(cycle, gang):
                if any(task.state == TaskState.PENDING for task in gang.tasks):
                    line.push(gang)
                    back[uid] = gang
            elif may_end and cycle.placement.is_full(cycle.kept.backlog.requests().values()):
                for other in back.values():
                    await _allocate(cycle, other)
                await cycle.refuse_rest(popped, partial(_allocate, cycle))
                return
            await session.turn()


async def _allocate(cycle: Cycle, gang: Gang) -> bool:
    """Place the next tasks of a job and carry it out; return whether that was possible."""
    job = gang.job
    if cycle.session.is_live and not gang.to_place():
        return False  # the sub-groups of the tasks that wait have too few pods
    had_tasks = job.count(ALLOCATED) > 0
    statement = cycle.open_statement.begin()
    try:
        is_placed = await cycle.placement.place_gang(statement, cycle.placement.all_rows, gang, promise=False)
    except BaseException:
        statement.discard()  # the pass ends here
        raise
    if not is_placed:
        statement.discard()
        return False
    waits = _waits(gang)
    if waits:
        for task in gang.tasks:
            if task.state == TaskState.ALLOCATED:
                statement.to_pipelined(task)
    await cycle.open_statement.commit(statement)
    if not waits and not had_tasks:
        job.last_start = cycle.session.now
    return True


def _waits(gang: Gang) -> bool:
    """Return whether a leaf with promised tasks has too few others: then nothing of the job starts yet."""
    for leaf in gang.leaves:
        promised = any(task.state == TaskState.PIPELINED for task in leaf.tasks)
        placed = sum(task.state in ACTIVE and task.state != TaskState.PIPELINED for task in leaf.tasks)
        if promised and placed < leaf.minimum:
            return True
    return False
