"""The scheduler: scheduling cycle, binding cycle, event handlers, failure handling, and `build`, which joins them.

Belongs here: what happens to a pod between the moment it is seen and the moment it is bound, and in which order.
Does not belong here: how nodes are judged (plugins), how the API server is reached (cluster; `ports` says what is
needed of it), concrete plugins, network libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler import lazy_names

if TYPE_CHECKING:
    from pyscheduler.scheduler.assembly import Settings as Settings, build as build
    from pyscheduler.scheduler.scheduler import Scheduler as Scheduler

__all__ = [
    "Scheduler",
    "Settings",
    "build",
]

_MODULES = {
    "Scheduler": "pyscheduler.scheduler.scheduler",
    "Settings": "pyscheduler.scheduler.assembly",
    "build": "pyscheduler.scheduler.assembly",
}

__getattr__ = lazy_names(__name__, _MODULES)
