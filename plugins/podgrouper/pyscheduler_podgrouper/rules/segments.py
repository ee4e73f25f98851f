"""The topology constraint of the segments of a gang.

A segment is a part of a gang; its pods must, or should, run close to each other, for example in one rack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyscheduler_podgrouper.contract import Owner, TopologyPlan
from pyscheduler_podgrouper.fields import GroupingError, text
from pyscheduler_podgrouper.generic import TOPOLOGY

if TYPE_CHECKING:
    from pyscheduler.api import Pod

__all__ = ["SEGMENT_SIZE", "segment_topology"]

SEGMENT_SIZE: Final = "kai.scheduler/segment-size"
_REQUIRED: Final = "kai.scheduler/segment-topology-required-placement"
_PREFERRED: Final = "kai.scheduler/segment-topology-preferred-placement"


def segment_topology(top: Owner, pod: Pod, worker: Mapping[str, Any] | None) -> TopologyPlan | None:
    """Return the topology constraint of all segments; None without a topology or a level.

    `worker` holds the template: as `worker.template.metadata` or `worker.metadata`.
    """
    metadata = _metadata(worker)
    topology = _value(pod, metadata, TOPOLOGY) or top.annotations.get(TOPOLOGY, "")
    required, preferred = _value(pod, metadata, _REQUIRED), _value(pod, metadata, _PREFERRED)
    if not topology or not (required or preferred):
        return None
    return TopologyPlan(topology=topology, required=required, preferred=preferred)


def _metadata(worker: Mapping[str, Any] | None) -> object:
    if worker is None:
        return None
    template = worker.get("template")
    return template.get("metadata") if isinstance(template, Mapping) else worker.get("metadata")


def _value(pod: Pod, metadata: object, key: str) -> str:
    """Return an annotation of the pod, else of the template; "" if none of them has it."""
    if pod.annotations.get(key):
        return pod.annotations[key]
    try:
        return text(metadata, "annotations", key) or ""
    except GroupingError:
        return ""
