"""The rows of workloads and services: replicas wanted and there, containers and images, ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler.api.errors import DecodeError
from pyscheduler.api.times import parse_time
from pyscheduler.cluster.embedded.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Printer,
    age,
    age_of,
    columns,
    human_duration,
)
from pyscheduler.cluster.embedded.resources.scale import selector_text

if TYPE_CHECKING:
    from pyscheduler.cluster.embedded.store import Object

__all__ = ["WORKLOAD_PRINTERS"]

_TEMPLATE_COLUMNS: Final = ("Containers", "Images")
_JOB_STATES: Final = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _number(name: str) -> Column:
    return Column(name, type="integer")


def _containers(obj: Object, *path: str) -> list[str]:
    """Return names and images of the containers of a template, each as one text."""
    inner: Any = obj.get("spec") or {}
    for step in path or ("template",):
        inner = (inner or {}).get(step)
    found = ((inner or {}).get("spec") or {}).get("containers") or ()
    return [",".join(one.get(name) or "" for one in found) for name in ("name", "image")]


def _labels(selector: Any) -> str:
    return selector_text(selector) or NONE


def _replica_cells(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [obj["metadata"]["name"], *counts, age_of(obj, now), *_containers(obj), _labels(spec.get("selector"))]


def _deployment_cells(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *_containers(obj),
        _labels(spec.get("selector")),
    ]


def _stateful_set_cells(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [obj["metadata"]["name"], ready, age_of(obj, now), *_containers(obj)]


def _daemon_set_cells(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    template = ((spec.get("template") or {}).get("spec") or {}).get("nodeSelector")
    return [
        obj["metadata"]["name"],
        *(status.get(name, 0) for name in (*names, "numberAvailable")),
        _labels(template),
        age_of(obj, now),
        *_containers(obj),
        _labels(spec.get("selector")),
    ]


def _job_cells(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    done, completions, parallelism = status.get("succeeded", 0), spec.get("completions"), spec.get("parallelism") or 0
    of = completions if completions is not None else f"1 of {parallelism}" if parallelism > 1 else 1
    true = {one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"}
    state = "Running"
    for name in reversed(_JOB_STATES):
        if not name and "deletionTimestamp" in obj["metadata"]:
            state = "Terminating"
        elif name in true:
            state = name
    return [
        obj["metadata"]["name"],
        state,
        f"{done}/{of}",
        _job_duration(status, now),
        age_of(obj, now),
        *_containers(obj),
        _labels(spec.get("selector")),
    ]


def _job_duration(status: Object, now: float) -> str:
    try:
        begun = parse_time(status["startTime"]) if status.get("startTime") else None
        ended = parse_time(status["completionTime"]) if status.get("completionTime") else now
    except DecodeError:
        return UNKNOWN
    return "" if begun is None else human_duration(ended - begun)


def _cron_job_cells(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    last = status.get("lastScheduleTime")
    selector = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("selector")
    return [
        obj["metadata"]["name"],
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        _go_bool(spec.get("suspend")),
        len(status.get("active") or ()),
        age(last, now) if last else NONE,
        age_of(obj, now),
        *_containers(obj, "jobTemplate", "spec", "template"),
        _labels(selector),
    ]


def _go_bool(value: Any) -> str:
    return NONE if value is None else "True" if value else "False"


def _service_cells(service: Object, now: float) -> list[Any]:
    spec = service.get("spec") or {}
    ports = []
    for port in spec.get("ports") or ():
        on_node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port', 0)}{on_node}/{port.get('protocol') or ''}")
    return [
        service["metadata"]["name"],
        spec.get("type") or "",
        next(iter(spec.get("clusterIPs") or ()), NONE),
        _external(service, spec),
        ",".join(ports) or NONE,
        age_of(service, now),
        _labels(spec.get("selector")),
    ]


def _external(service: Object, spec: Object) -> str:
    kind, given = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return spec.get("externalName") or ""
    if kind == "LoadBalancer":
        balancer = (service.get("status") or {}).get("loadBalancer") or {}
        entries = [one.get("ip") or one.get("hostname") or "" for one in balancer.get("ingress") or ()]
        return ",".join([*entries, *given]) or "<pending>"
    return ",".join(given) or NONE


_REPLICAS: Final = Printer(
    columns(
        NAME,
        _number("Desired"),
        _number("Current"),
        _number("Ready"),
        AGE,
        wide=(*_TEMPLATE_COLUMNS, "Selector"),
    ),
    _replica_cells,
)
WORKLOAD_PRINTERS: Final[dict[str, Printer]] = {
    "replicationcontrollers": _REPLICAS,
    "replicasets.apps": _REPLICAS,
    "deployments.apps": Printer(
        columns(NAME, "Ready", "Up-to-date", "Available", AGE, wide=(*_TEMPLATE_COLUMNS, "Selector")),
        _deployment_cells,
    ),
    "statefulsets.apps": Printer(columns(NAME, "Ready", AGE, wide=_TEMPLATE_COLUMNS), _stateful_set_cells),
    "daemonsets.apps": Printer(
        columns(
            NAME,
            *(_number(name) for name in ("Desired", "Current", "Ready", "Up-to-date", "Available")),
            "Node Selector",
            AGE,
            wide=(*_TEMPLATE_COLUMNS, "Selector"),
        ),
        _daemon_set_cells,
    ),
    "jobs.batch": Printer(
        columns(NAME, "Status", "Completions", "Duration", AGE, wide=(*_TEMPLATE_COLUMNS, "Selector")), _job_cells
    ),
    "cronjobs.batch": Printer(
        columns(
            NAME,
            "Schedule",
            "Timezone",
            Column("Suspend", type="boolean"),
            _number("Active"),
            "Last Schedule",
            AGE,
            wide=(*_TEMPLATE_COLUMNS, "Selector"),
        ),
        _cron_job_cells,
    ),
    "services": Printer(
        columns(NAME, "Type", "Cluster-IP", "External-IP", "Port(s)", AGE, wide=("Selector",)), _service_cells
    ),
}
"""By collection: how workloads and services are printed."""
