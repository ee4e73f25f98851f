"""The resource axis: the order of the columns in arrays of amounts, with one column for each resource.

Units: `cpu` in millicores; `memory` and `ephemeral-storage` in bytes; other resources in whole numbers, or fractions
for shared devices. Infinity means unlimited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.api import is_scalar_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

__all__ = ["CPU", "GPU", "MEMORY", "PODS", "Amounts", "ResourceAxis", "is_counted"]

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
GPU: Final = "nvidia.com/gpu"

if TYPE_CHECKING:
    #: float64[R], or float64[n, R]: amounts of the resources of an axis.
    Amounts = NDArray[np.float64]
else:
    Amounts = np.ndarray


def is_counted(name: str) -> bool:
    """Return whether a session counts a resource; names that only quotas know, such as `requests.cpu`, do not count.

    Source: Volcano `NewResource`, `pkg/scheduler/api`.
    """
    is_quota = name.startswith(("count/", "requests."))
    return name in {CPU, MEMORY, PODS, "ephemeral-storage"} or (is_scalar_resource(name) and not is_quota)


@attrs.frozen
class ResourceAxis:
    """The resources of a session, in the order of columns."""

    names: tuple[str, ...]
    index: Mapping[str, int]

    @classmethod
    def of(cls, names: Iterable[str]) -> ResourceAxis:
        """Return the axis of these resources; cpu, memory and pods are always there, and first."""
        ordered = tuple(dict.fromkeys((CPU, MEMORY, PODS, *sorted(names))))
        return cls(ordered, {name: column for column, name in enumerate(ordered)})

    def __len__(self) -> int:
        return len(self.names)

    def zeros(self) -> Amounts:
        """Return float64[R]: nothing of any resource."""
        return np.zeros(len(self.names))

    def amounts(self, values: Mapping[str, float], *, missing: float = 0.0) -> Amounts:
        """Return float64[R] of `values` by resource name; names that the axis lacks are left out."""
        result = np.full(len(self.names), missing)
        for name, value in values.items():
            column = self.index.get(name)
            if column is not None:
                result[column] = value
        return result

    def mapping(self, amounts: Amounts) -> dict[str, float]:
        """Return the amounts by resource name."""
        return dict(zip(self.names, amounts.tolist(), strict=True))
