"""Interfaces: `Placer` finds nodes for tasks (pods), `Effects` carries out decisions, such as evictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler_batch.model.tasks import Job, Task

__all__ = ["Effects", "Placer"]


class Placer(Protocol):
    """Places tasks in thought. The statement keeps it in step: releasing tasks are gone, placed tasks are there."""

    def feasible(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that the filters of the profile accept once all releasing tasks are gone.

        The amounts of cpu, memory, pods and other node resources may be left out: the session compares them itself.
        """
        ...

    def suitable(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that the filters accept, or would accept if they had enough room.

        The caller compares amounts itself. Cheaper than `feasible`: for most tasks the answer holds for the whole pass.
        """
        ...

    def curable(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that accept the task or that evictions could make acceptable."""
        ...

    def why_not(self, task: Task, *, beside_room: bool = False) -> str:
        """Return why the filters accept no node for a task; "" if they accept one, or were not asked.

        With `beside_room`, also "" for a plain pod that some node refuses for its amounts alone.
        """
        ...

    def may_run_together(self, tasks: Sequence[Task]) -> bool:
        """Return False if the filters certainly keep the tasks from running at the same time, whatever is evicted."""
        ...

    def feasible_now(self, task: Task, node: int) -> bool:
        """Return whether the filters accept the node while the releasing tasks are still there."""
        ...

    def scores(
        self, task: Task, rows: NDArray[np.int64], *, without: Sequence[Task] = ()
    ) -> NDArray[np.float64] | None:
        """Return float64[n]: the scores of the profile's plugins for these rows; None if the profile scores nothing.

        Tasks in `without` are on nodes, but do not count.
        """
        ...

    def raw_scores(self, plugin: str, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return float64[n]: the scores of one plugin of the profile for these rows, not normalized.

        None if the plugin is not in the profile, or has nothing to say about the task.
        """
        ...

    def place(self, task: Task, node: int) -> None:
        """Take notice that a task was placed."""
        ...

    def remove(self, task: Task, node: int) -> None:
        """Take notice that a task was evicted, or that its placement was undone."""
        ...

    def lasts_with_shares(self, task: Task) -> bool:
        """Return whether the filters' answer depends on the task, on node objects and on `SharedRoom.shares` alone."""
        ...

    def show_moves(self) -> None:
        """Let the plugins of the profile see all tasks where they are; otherwise, they see them when they are asked."""
        ...


class Effects(Protocol):
    """Carries out committed decisions. Each is called once per task, in the order of decisions."""

    def bind(self, task: Task, node: int) -> bool:
        """Send a task to binding; return False if that failed at once."""
        ...

    def nominate(self, task: Task, node: int) -> None:
        """Promise a node to a task that waits for released resources."""
        ...

    def evict(self, task: Task, *, action: str, by: Job | None) -> bool:
        """Evict a task, for a job or because its own job is broken; return False if that failed at once."""
        ...
