"""The page /metrics/resources: requests and limits of the pods that have not ended.

Source: kube-scheduler 1.36, `pkg/scheduler/metrics/resources`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyscheduler.api import PySchedulerError, pod_limits, pod_requests
from pyscheduler.telemetry.families import CONTENT_TYPE, Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyscheduler.api import Pod

__all__ = ["LIMIT", "REQUEST", "render_pod_resources"]

_LABELS: Final = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_SHOWN: Final = (
    "broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod for resources along "
    "with the unit for the resource if any."
)
REQUEST: Final = Family(
    "kube_pod_resource_request",
    "gauge",
    _LABELS,
    "STABLE",
    f"Resources requested by workloads on the cluster, {_SHOWN}",
)
LIMIT: Final = Family(
    "kube_pod_resource_limit", "gauge", _LABELS, "STABLE", f"Resources limit for workloads on the cluster, {_SHOWN}"
)

_MILLI: Final = 1000
_UNITS: Final = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_ESCAPED: Final = re.compile(r'[\\\n"]')


def render_pod_resources(pods: Iterable[Pod]) -> tuple[bytes, str]:
    """Return the page and its content type, without terminated and unreadable pods."""
    requests: list[str] = []
    limits: list[str] = []
    for pod in pods:
        if pod.node_name and pod.status.phase in _ENDED:
            continue
        try:
            wanted, allowed = pod_requests(pod, use_status=False), pod_limits(pod)
        except PySchedulerError:
            continue  # the pod's malformed quantity was reported when the pod was added
        requests.extend(_lines(REQUEST, pod, wanted))
        limits.extend(_lines(LIMIT, pod, allowed))
    return "".join((*_page(REQUEST, requests), *_page(LIMIT, limits))).encode(), CONTENT_TYPE


def _page(family: Family, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"# HELP {family.name} {family.description}\n# TYPE {family.name} {family.kind}\n"
        yield from lines


def _lines(family: Family, pod: Pod, amounts: dict[str, int]) -> Iterator[str]:
    priority = pod.spec.priority
    head = (
        f'{family.name}{{namespace="{_quoted(pod.namespace)}",node="{_quoted(pod.node_name)}",'
        f'pod="{_quoted(pod.name)}",priority="{"" if priority is None else priority}",resource="'
    )
    tail = f'",scheduler="{_quoted(pod.scheduler_name)}",unit="'
    for resource, amount in amounts.items():
        if amount:
            value = amount / _MILLI if resource == "cpu" else amount
            yield f'{head}{_quoted(resource)}{tail}{_unit(resource)}"}} {value}\n'


def _unit(resource: str) -> str:
    if resource.startswith("hugepages-"):
        return "bytes"
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return _UNITS.get(resource, "")


def _quoted(text: str) -> str:
    """Return a label's value, escaped for quotes."""
    return _ESCAPED.sub(lambda found: "\\n" if found[0] == "\n" else "\\" + found[0], text)
