"""The resource requests of waiting jobs, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pyscheduler_kai.gang import Quantities

__all__ = ["Ask", "Asks"]

_GPUS: Final = 2


class Ask(NamedTuple):
    """The next request of a waiting job: equal for many jobs of a queue."""

    row: int
    requested: Quantities
    priority: float
    preemptible: bool


@attrs.frozen(eq=False)
class Asks:
    """The requests of jobs as columns, each kind of request once."""

    #: int64[n]: the leaf queues.
    rows: NDArray[np.int64]
    #: float64[n, 3]: CPU, memory and GPUs.
    requested: NDArray[np.float64]
    #: float64[n].
    priority: NDArray[np.float64]
    #: bool[n].
    preemptible: NDArray[np.bool_]

    @classmethod
    def of(cls, kinds: Iterable[Ask]) -> Asks:
        """Return the columns of some asks."""
        asks = [*kinds]
        return cls(
            np.array([ask.row for ask in asks], dtype=np.int64),
            np.array([ask.requested for ask in asks], dtype=np.float64).reshape(len(asks), 3),
            np.array([ask.priority for ask in asks], dtype=np.float64),
            np.array([ask.preemptible for ask in asks], dtype=np.bool_),
        )

    @property
    def gpus(self) -> NDArray[np.float64]:
        """Return float64[n]."""
        return self.requested[:, _GPUS]

    def join(self, other: Asks) -> Asks:
        """Return both."""
        return Asks(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.requested, other.requested]),
            np.concatenate([self.priority, other.priority]),
            np.concatenate([self.preemptible, other.preemptible]),
        )
