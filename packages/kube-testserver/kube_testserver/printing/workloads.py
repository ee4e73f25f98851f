"""The rows of workloads and services in `kubectl get`: replicas, containers and images, ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_objects.errors import DecodeError
from kube_objects.times import parse_time
from kube_testserver.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Field,
    Printer,
    ago,
    field,
    human_duration,
    number,
    printer,
    wide,
)
from kube_testserver.resources.scale import selector_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube_testserver.store import Object

__all__ = ["WORKLOAD_PRINTERS"]

#: The first that holds is shown.
_JOB_STATES: Final = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _containers(template: str = "spec.template") -> tuple[Field, ...]:
    """Return the names and the images of the containers of a template."""

    def joined(name: str) -> Any:
        return lambda containers: ",".join(one.get(name) or "" for one in containers)

    path = f"{template}.spec.containers"
    return wide(field("Containers", path, convert=joined("name")), field("Images", path, convert=joined("image")))


def _selector(name: str, path: str) -> Field:
    return field(name, path, otherwise=NONE, convert=lambda selector: selector_text(selector) or NONE)


def _ready(obj: Object, _now: float) -> str:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"


def _job_state(job: Object, _now: float) -> str:
    status = job.get("status") or {}
    true = {one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"}
    if "deletionTimestamp" in job["metadata"]:
        true.add("Terminating")
    return next((state for state in _JOB_STATES if state in true), "Running")


def _completions(job: Object, _now: float) -> str:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    done, completions, parallelism = status.get("succeeded", 0), spec.get("completions"), spec.get("parallelism") or 0
    of = completions if completions is not None else f"1 of {parallelism}" if parallelism > 1 else 1
    return f"{done}/{of}"


def _job_duration(job: Object, now: float) -> str:
    status = job.get("status") or {}
    try:
        begun = parse_time(status["startTime"]) if status.get("startTime") else None
        ended = parse_time(status["completionTime"]) if status.get("completionTime") else now
    except DecodeError:
        return UNKNOWN
    return "" if begun is None else human_duration(ended - begun)


def _ports(ports: Iterable[Object]) -> str:
    shown = []
    for port in ports:
        on_node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port', 0)}{on_node}/{port.get('protocol') or ''}")
    return ",".join(shown)


def _external(service: Object, _now: float) -> str:
    spec = service.get("spec") or {}
    kind, given = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return spec.get("externalName") or ""
    if kind == "LoadBalancer":
        balancer = (service.get("status") or {}).get("loadBalancer") or {}
        entries = [one.get("ip") or one.get("hostname") or "" for one in balancer.get("ingress") or ()]
        return ",".join([*entries, *given]) or "<pending>"
    return ",".join(given) or NONE


_SELECTOR: Final = wide(_selector("Selector", "spec.selector"))
_REPLICAS: Final = printer(
    NAME,
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
    AGE,
    *_containers(),
    *_SELECTOR,
)
WORKLOAD_PRINTERS: Final[dict[str, Printer]] = {
    "replicationcontrollers": _REPLICAS,
    "replicasets.apps": _REPLICAS,
    "deployments.apps": printer(
        NAME,
        (Column("Ready"), _ready),
        field("Up-to-date", "status.updatedReplicas", otherwise=0),
        field("Available", "status.availableReplicas", otherwise=0),
        AGE,
        *_containers(),
        *_SELECTOR,
    ),
    "statefulsets.apps": printer(NAME, (Column("Ready"), _ready), AGE, *_containers()),
    "daemonsets.apps": printer(
        NAME,
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        _selector("Node Selector", "spec.template.spec.nodeSelector"),
        AGE,
        *_containers(),
        *_SELECTOR,
    ),
    "jobs.batch": printer(
        NAME,
        (Column("Status"), _job_state),
        (Column("Completions"), _completions),
        (Column("Duration"), _job_duration),
        AGE,
        *_containers(),
        *_SELECTOR,
    ),
    "cronjobs.batch": printer(
        NAME,
        field("Schedule", "spec.schedule"),
        field("Timezone", "spec.timeZone", otherwise=NONE),
        field("Suspend", "spec.suspend", otherwise=NONE, type="boolean", convert=str),
        field("Active", "status.active", otherwise=0, type="integer", convert=len),
        ago("Last Schedule", "status.lastScheduleTime", otherwise=NONE),
        AGE,
        *_containers("spec.jobTemplate.spec.template"),
        *wide(_selector("Selector", "spec.jobTemplate.spec.selector")),
    ),
    "services": printer(
        NAME,
        field("Type", "spec.type"),
        field("Cluster-IP", "spec.clusterIPs", otherwise=NONE, convert=lambda addresses: addresses[0]),
        (Column("External-IP"), _external),
        field("Port(s)", "spec.ports", otherwise=NONE, convert=_ports),
        AGE,
        *_SELECTOR,
    ),
}
"""By collection: how workloads and services are printed."""
