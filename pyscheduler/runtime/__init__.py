"""Plugins at work: found, loaded, put in order, and called.

Belongs here: `assembly` makes running profiles of what is installed, `extension_points` calls plugins,
`equivalence_cache` reuses their answers, `placement` is the pipeline that places a pod, `statement` records what can be
undone, `preemption` searches for victims, `permit` has the pods that wait, `plugin_handle` is what plugins reach.

Does not belong here: concrete plugins (they are found like anybody's), the scheduling cycle, the API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler import lazy_names

if TYPE_CHECKING:
    from pyscheduler.runtime.assembly.discovery import discover as discover
    from pyscheduler.runtime.assembly.registry import Registry as Registry
    from pyscheduler.runtime.handle_dependencies import HandleDependencies as HandleDependencies
    from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap as WaitingPodMap
    from pyscheduler.runtime.profile import Profile as Profile

__all__ = [
    "HandleDependencies",
    "Profile",
    "Registry",
    "WaitingPodMap",
    "discover",
]

_MODULES = {
    "Profile": "pyscheduler.runtime.profile",
    "Registry": "pyscheduler.runtime.assembly.registry",
    "HandleDependencies": "pyscheduler.runtime.handle_dependencies",
    "WaitingPodMap": "pyscheduler.runtime.permit.waiting_pods",
    "discover": "pyscheduler.runtime.assembly.discovery",
}

__getattr__ = lazy_names(__name__, _MODULES)
