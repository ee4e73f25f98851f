"""Volcano's plugin `nodeorder`: it scores nodes with kube-scheduler's score plugins.

Source: Volcano `plugins/nodeorder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler_batch.contract import TaskState
from pyscheduler_volcano.policy import VolcanoPolicy, number_argument

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Task

__all__ = ["NodeOrder", "score_weights"]

_DEFAULTS = {
    "leastrequested": 1,
    "mostrequested": 0,
    "nodeaffinity": 2,
    "podaffinity": 2,
    "balancedresource": 1,
    "tainttoleration": 3,
    "imagelocality": 1,
    "podtopologyspread": 2,
}

_PLACED: Final = frozenset({TaskState.BOUND, TaskState.RUNNING})
#: With more tasks than these all count again: each scoring takes them off their nodes in thought.
_MOST_SPARED: Final = 64


def score_weights(arguments: Mapping[str, object]) -> dict[str, int]:
    """Return the weight of each score by the first part of its argument, as in `leastrequested.weight`."""
    return {name: number_argument(arguments, f"{name}.weight", default) for name, default in _DEFAULTS.items()}


class NodeOrder(VolcanoPolicy):
    """Add the scores of the profile's score plugins, with the weights that they have in the profile.

    The arguments set these weights if the configuration is a file of Volcano (`settings.batch_file`).

    Once an eviction is undone, the scores of the session do not count its pod any more, as in Volcano. Filters do.
    """

    name: ClassVar[str] = "nodeorder"

    def prepare(self) -> None:
        """Forget the evictions of the last session."""
        #: By uid, the tasks whose evictions were undone.
        self._spared: dict[str, Task] = {}

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Take notice of an eviction that is undone."""
        if old == TaskState.RELEASING and new in _PLACED:
            self._spared[task.uid] = task

    def score_nodes(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return float64[n] for the nodes `rows`, or None if the profile scores nothing."""
        spared: list[Task] = []
        if len(self._spared) <= _MOST_SPARED:
            spared = [each for each in self._spared.values() if each.state in _PLACED]
        return self.session.placer.scores(task, rows, without=spared)
