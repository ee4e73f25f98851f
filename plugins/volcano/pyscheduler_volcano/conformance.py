"""Volcano's plugin `conformance`: protect critical pods, and all pods of kube-system, from eviction.

Source: Volcano `plugins/conformance`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler_volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Tasks

__all__ = ["Conformance"]


class Conformance(VolcanoPolicy):
    """Protect the pods of kube-system and of the system priority classes."""

    name: ClassVar[str] = "conformance"

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_]:
        """Return bool[n]: the tasks that are not critical."""
        return np.array([not task.critical for task in tasks.tasks], dtype=np.bool_)

    reclaimable = preemptable
