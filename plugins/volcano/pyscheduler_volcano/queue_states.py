"""The states of Volcano's queues, such as Open and Closed, and how Volcano's controller changes them.

Source: Volcano `pkg/controllers/queue` (`state`, `syncHierarchicalQueue`).
"""

from __future__ import annotations

from typing import Final

import attrs

from pyscheduler_batch.contract import QueueState

__all__ = ["CLOSED_BY_PARENT", "QueueMove", "move_of"]

CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
"""The annotation of a queue that was closed because the queue above is: true, or false once it was opened again."""

_SHUT: Final = frozenset({QueueState.CLOSED, QueueState.CLOSING})


@attrs.frozen
class QueueMove:
    """From which state a queue moves to which one; `by_parent` is the new annotation, None if it stays."""

    seen: str
    state: str
    by_parent: bool | None = None


def move_of(state: str, *, has_groups: bool, parent: str, closed_by_parent: bool) -> QueueMove:
    """Return the next state of a queue; `parent` is the state of the queue above, "" if there is none.

    A queue without a state is open. A closing queue is closed once it has no groups. A queue below one that is closed
    or closing is closed with it, and opened with it if nobody else closed it.
    """
    now = state or QueueState.OPEN
    closed = str(QueueState.CLOSING if has_groups else QueueState.CLOSED)
    if parent in _SHUT and now not in _SHUT:
        return QueueMove(state, closed, by_parent=True)
    if parent == QueueState.OPEN and now in _SHUT and closed_by_parent:
        return QueueMove(state, str(QueueState.OPEN), by_parent=False)
    return QueueMove(state, closed if now == QueueState.CLOSING else str(now))
