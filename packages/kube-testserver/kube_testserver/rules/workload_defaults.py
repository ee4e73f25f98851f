"""Fill in defaults of workloads and Services: only the fields that clients read or show."""

from __future__ import annotations

import functools
import ipaddress
import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_testserver.store import Object

__all__ = ["WORKLOAD_DEFAULTS", "WORKLOAD_STATUS", "fill", "service_defaults"]

_ROLLING: Final = {"maxUnavailable": "25%", "maxSurge": "25%"}
_FIRST_SERVICE: Final = int(ipaddress.IPv4Address("10.96.0.10"))
_SERVICES: Final = (1 << 20) - 20
_PORTS: Final = range(30_000, 32_768)


def fill(spec: Object, values: Object) -> None:
    """Set the fields of `values` that are absent."""
    for name, value in values.items():
        if spec.get(name) is None:
            spec[name] = dict(value) if isinstance(value, dict) else value


def _deployment(spec: Object) -> None:
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}})
    strategy = spec["strategy"]
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(strategy, {"rollingUpdate": {}})
        fill(strategy["rollingUpdate"], _ROLLING)


_REPLICAS: Final = functools.partial(fill, values={"replicas": 1})


def _stateful_set(spec: Object) -> None:
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"})
    fill(spec, {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}})
    fill(spec, {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}})


def _daemon_set(spec: Object) -> None:
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    fill(spec, {"revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})


def _job(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(spec, {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False})
    fill(spec, {"podReplacementPolicy": "TerminatingOrFailed", "manualSelector": False})


def _cron_job(spec: Object) -> None:
    fill(spec, {"concurrencyPolicy": "Allow", "suspend": False})
    fill(spec, {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})


def _defaulter(of_spec: Callable[[Object], None], *template: str) -> Callable[..., None]:
    def complete(obj: Object, as_pod: Callable[[Object], None]) -> None:
        spec = obj.setdefault("spec", {})
        of_spec(spec)
        inner: Any = spec
        for step in template:
            inner = inner.get(step) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            as_pod(inner)

    return complete


WORKLOAD_DEFAULTS: Final = {
    "deployments.apps": _defaulter(_deployment, "template"),
    "replicasets.apps": _defaulter(_REPLICAS, "template"),
    "replicationcontrollers": _defaulter(_REPLICAS, "template"),
    "statefulsets.apps": _defaulter(_stateful_set, "template"),
    "daemonsets.apps": _defaulter(_daemon_set, "template"),
    "jobs.batch": _defaulter(_job, "template"),
    "cronjobs.batch": _defaulter(_cron_job, "jobTemplate", "spec", "template"),
}
"""By collection: what completes a workload, given what completes a pod."""

WORKLOAD_STATUS: Final[dict[str, Object]] = {
    "deployments.apps": {},
    "replicasets.apps": {"replicas": 0},
    "replicationcontrollers": {"replicas": 0},
    "statefulsets.apps": {"replicas": 0, "availableReplicas": 0},
    "daemonsets.apps": {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    "jobs.batch": {},
    "cronjobs.batch": {},
}
"""By collection: the status a workload is born with."""


def service_defaults(service: Object) -> None:
    """Complete a service: its type, its address, and the targets of its ports.

    Addresses and node ports follow from the name, so that nothing has to be kept; two services may share one.
    """
    spec = service.setdefault("spec", {})
    fill(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    metadata = service["metadata"]
    number = zlib.crc32(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}".encode())
    if spec["type"] != "ExternalName":
        if not spec.get("clusterIP"):
            spec["clusterIP"] = str(ipaddress.IPv4Address(_FIRST_SERVICE + number % _SERVICES))
        fill(spec, {"clusterIPs": [spec["clusterIP"]], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})
        fill(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] in ("NodePort", "LoadBalancer"):
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        fill(spec, {"allocateLoadBalancerNodePorts": True})
    for index, port in enumerate(spec.get("ports") or ()):
        fill(port, {"protocol": "TCP", "targetPort": port.get("port", 0)})
        if spec["type"] in ("NodePort", "LoadBalancer"):
            fill(port, {"nodePort": _PORTS[(number + index) % len(_PORTS)]})
