"""kube-batch's plugin `predicates`: accept the nodes that the profile's Filter plugins accept.

Source: kube-batch `plugins/predicates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, cast

import numpy as np

from pyscheduler_batch.contract import CPU, MEMORY
from pyscheduler_batch.model.values import go_boolean
from pyscheduler_volcano import predicates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Task
    from pyscheduler_kube_batch.session import KubeBatchSession

__all__ = ["Predicates"]

_MEMORY: Final = "MemoryPressure"
_PRESSURES: Final = (_MEMORY, "DiskPressure", "PIDPressure")


class Predicates(predicates.Predicates):
    """Accept the nodes that the profile's filters accept, with evicted pods gone and placed pods there.

    Arguments leave out nodes under pressure, for pods that tolerate the taint of it, too. Pressure of memory keeps pods
    away that request neither CPU nor memory.
    """

    name: ClassVar[str] = "predicates"

    def prepare(self) -> None:
        """Find the nodes under the kinds of pressure that count."""
        session = cast("KubeBatchSession", self.session)
        self._calm: dict[str, NDArray[np.bool_]] = {}
        for kind in _PRESSURES:
            if go_boolean(str(self.arguments.get(f"predicate.{kind}Enable", "false"))):
                mask = np.ones(len(session.nodes), dtype=np.bool_)
                mask[
                    [session.nodes.index[name] for name in session.nodes_with(kind) if name in session.nodes.index]
                ] = False
                self._calm[kind] = mask

    def filter_nodes(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that the filters accept and whose pressure does not matter to the task."""
        return self.keep_calm(task, super().filter_nodes(task))

    def keep_calm(self, task: Task, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return bool[N]: those nodes of a mask whose pressure does not matter to the task."""
        index = self.session.axis.index
        is_best_effort = not (task.request[index[CPU]] or task.request[index[MEMORY]])
        for kind, calm in self._calm.items():
            if kind != _MEMORY or is_best_effort:
                mask = mask & calm
        return mask
