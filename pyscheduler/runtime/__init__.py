"""Plugins at work: found, loaded, put in order, and called.

Belongs here: discovery through entry points, the registry of what is installed, a profile made into a running
framework, the extension points one module each, the pipeline that places a pod, the waiting-pod map, what a plugin
reaches through its `Handle`.
Plugin code is entered in one place, `plugin_calls`, which turns whatever goes wrong there into a `Status`.

Does not belong here: concrete plugins (they are found like anybody's), the scheduling cycle, the API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler import lazy_names

if TYPE_CHECKING:
    from pyscheduler.runtime.discovery import discover as discover
    from pyscheduler.runtime.handle_dependencies import HandleDependencies as HandleDependencies
    from pyscheduler.runtime.profile import Profile as Profile
    from pyscheduler.runtime.registry import Registry as Registry
    from pyscheduler.runtime.waiting_pods import WaitingPodMap as WaitingPodMap

__all__ = [
    "HandleDependencies",
    "Profile",
    "Registry",
    "WaitingPodMap",
    "discover",
]

_MODULES = {
    "Profile": "pyscheduler.runtime.profile",
    "Registry": "pyscheduler.runtime.registry",
    "HandleDependencies": "pyscheduler.runtime.handle_dependencies",
    "WaitingPodMap": "pyscheduler.runtime.waiting_pods",
    "discover": "pyscheduler.runtime.discovery",
}

__getattr__ = lazy_names(__name__, _MODULES)
