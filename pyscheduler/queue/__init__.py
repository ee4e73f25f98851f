"""The scheduling queue: activeQ, backoffQ, unschedulable and gated pods, in-flight events, the nominator.

Belongs here: where a pod waits, why, and what brings it back; `SchedulingQueue` is the door, `places` has the map.
Does not belong here: the cache, the runtime (hints and PreEnqueue come in as functions), the API server, any waiting
but for the next pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler import lazy_names

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
    "ActiveQueue": "pyscheduler.queue.active",
    "BackoffQueue": "pyscheduler.queue.backoff",
    "Nominator": "pyscheduler.queue.nominator",
    "SchedulingQueue": "pyscheduler.queue.scheduling_queue",
    "UnschedulablePods": "pyscheduler.queue.unschedulable",
}

__getattr__ = lazy_names(__name__, _MODULES)
