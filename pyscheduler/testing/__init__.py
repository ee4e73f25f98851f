"""The test kit for plugins: builders, a virtual clock, a fake cluster, a framework with any set of plugins.

Belongs here: what a plugin author needs to test a plugin without a cluster, and what the project's own tests use for
the same. Does not belong here: a second scheduler; `FakeFramework` runs the real one. Loaded lazily, because the pytest
plugin of this package is imported in every pytest run, its user's or not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyscheduler.testing.builders import (
        make_node as make_node,
        make_pod as make_pod,
        node_manifest as node_manifest,
        pod_manifest as pod_manifest,
    )
    from pyscheduler.testing.clock import VirtualClock as VirtualClock
    from pyscheduler.testing.fake_cluster import FakeCluster as FakeCluster
    from pyscheduler.testing.fake_framework import FakeFramework as FakeFramework, ScheduleResult as ScheduleResult

__all__ = [
    "FakeCluster",
    "FakeFramework",
    "ScheduleResult",
    "VirtualClock",
    "make_node",
    "make_pod",
    "node_manifest",
    "pod_manifest",
]

_MODULES = {
    "FakeCluster": "fake_cluster",
    "FakeFramework": "fake_framework",
    "ScheduleResult": "fake_framework",
    "VirtualClock": "clock",
    "make_node": "builders",
    "make_pod": "builders",
    "node_manifest": "builders",
    "pod_manifest": "builders",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
