"""The decisions (bind, nominate, evict) of one scheduling round, which are carried out after the round."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import attrs

from pyscheduler_batch.model.tasks import TaskState

if TYPE_CHECKING:
    from pyscheduler_batch.model.tasks import Job, Task

__all__ = ["Decision", "DecisionKind", "Decisions"]


class DecisionKind(Enum):
    """The kind of a decision about a task."""

    BIND = "bind"
    #: The task waits for resources that are being released.
    NOMINATE = "nominate"
    EVICT = "evict"


@attrs.frozen
class Decision:
    """One decision. `node` is a row of the node table; of an eviction, the row that the task leaves."""

    kind: DecisionKind
    task: Task
    node: int
    #: For evictions: the action, and the job that gets the room (None for broken gangs).
    action: str = ""
    by: Job | None = None
    #: An eviction: the same plan promises another node to the pod's successor.
    is_moved: bool = False
    #: The job in whose plan the eviction is, if a later plan of the pass gave the room to `by`.
    planner: Job | None = None

    @property
    def planned_for(self) -> Job | None:
        """The job in whose plan an eviction is; None for broken gangs."""
        return self.planner or self.by


@attrs.define(eq=False)
class Decisions:
    """Implements `Effects` by recording them."""

    items: list[Decision] = attrs.Factory(list)
    #: By uid of a job that is evicted, the jobs that take its room.
    takers: dict[str, set[str]] = attrs.Factory(dict)

    def bind(self, task: Task, node: int) -> bool:
        """Record a binding."""
        self.items.append(Decision(DecisionKind.BIND, task, node))
        return True

    def nominate(self, task: Task, node: int) -> None:
        """Record a promise."""
        self.items.append(Decision(DecisionKind.NOMINATE, task, node))

    def evict(self, task: Task, *, action: str, by: Job | None) -> bool:
        """Record an eviction."""
        node = task.leaving[0] if task.leaving else task.node
        # Another plan of the pass may take that promise; this one was made with it.
        is_moved = task.state is TaskState.PIPELINED
        self.items.append(Decision(DecisionKind.EVICT, task, node, action, by, is_moved))
        if by is not None:
            self.takers.setdefault(task.job.uid, set()).add(by.uid)
        return True
