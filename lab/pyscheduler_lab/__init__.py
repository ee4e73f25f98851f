"""The lab: simulate the scheduler in virtual time, replay traces of jobs, and check recorded decisions.

The lab is for tests and experiments; the scheduler does not import it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyscheduler_lab.clusters import Cluster as Cluster, Node as Node, Watts as Watts
    from pyscheduler_lab.experiment import Comparison as Comparison, compare as compare
    from pyscheduler_lab.traces import Job as Job, Trace as Trace

__all__ = ["Cluster", "Comparison", "Job", "Node", "Trace", "Watts", "compare"]

#: The module of each name.
_HOMES: Final = {
    **dict.fromkeys(("Cluster", "Node", "Watts"), "clusters"),
    **dict.fromkeys(("Comparison", "compare"), "experiment"),
    **dict.fromkeys(("Job", "Trace"), "traces"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
