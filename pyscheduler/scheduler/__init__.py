"""The scheduler: scheduling cycle, binding cycle, event handlers, failure handling, and `build`, which joins them.

Belongs here: what happens to a pod between the moment it is seen and the moment it is bound, and in which order.
Does not belong here: how nodes are judged (plugins), how the API server is reached (cluster; `ports` says what is
needed of it), concrete plugins, network libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyscheduler.scheduler.assembly import Settings as Settings, build as build
    from pyscheduler.scheduler.scheduler import Scheduler as Scheduler

__all__ = [
    "Scheduler",
    "Settings",
    "build",
]

_MODULES = {
    "Scheduler": "scheduler",
    "Settings": "assembly",
    "build": "assembly",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
