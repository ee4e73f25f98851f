"""The scheduling queue: activeQ, backoffQ, unschedulable and gated pods, in-flight events, the nominator.

Belongs here: where a pod waits, why, and what brings it back; `SchedulingQueue` is the door, `places` has the map.
Does not belong here: the cache, the runtime (hints and PreEnqueue come in as functions), the API server, any waiting
but for the next pod.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyscheduler.queue.active import ActiveQueue as ActiveQueue
    from pyscheduler.queue.backoff import BackoffQueue as BackoffQueue
    from pyscheduler.queue.nominator import Nominator as Nominator
    from pyscheduler.queue.scheduling_queue import SchedulingQueue as SchedulingQueue
    from pyscheduler.queue.unschedulable import UnschedulablePods as UnschedulablePods

__all__ = [
    "ActiveQueue",
    "BackoffQueue",
    "Nominator",
    "SchedulingQueue",
    "UnschedulablePods",
]

_MODULES = {
    "ActiveQueue": "active",
    "BackoffQueue": "backoff",
    "Nominator": "nominator",
    "SchedulingQueue": "scheduling_queue",
    "UnschedulablePods": "unschedulable",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
