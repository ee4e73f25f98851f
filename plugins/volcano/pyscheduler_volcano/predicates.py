"""Volcano's plugin `predicates`: accept a node if the profile's filters accept it and it can take one more pod.

Source: Volcano `plugins/predicates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyscheduler_volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Task

__all__ = ["Predicates"]


class Predicates(VolcanoPolicy):
    """Accept the nodes that the profile's filters accept, with evicted pods gone and placed pods there."""

    name: ClassVar[str] = "predicates"

    def filter_nodes(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that the filters accept, and that take one more pod."""
        return self.session.placer.feasible(task) & self.session.places.has_place()
