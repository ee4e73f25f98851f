"""Read pods, nodes and priority classes from their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler_lab.audit.amounts import GPU, Amounts, add, quantity, read_amounts, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Node", "Pod", "PriorityClass", "read_node", "read_pod", "read_priority_class"]

#: Annotations that name the pod group: KAI, and Volcano's two spellings (kube-batch has the first of them).
_GROUP_KEYS: Final = ("pod-group-name", "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_QUEUE_ANNOTATIONS: Final = ("scheduling.volcano.sh/queue-name", "scheduling.k8s.io/queue-name")
_ENDED: Final = frozenset({"Succeeded", "Failed"})
#: Of a pod that says nothing else; Kubernetes' default.
_GRACE_SECONDS: Final = 30.0


@attrs.frozen(kw_only=True)
class Pod:
    """One version of a pod, as far as the rules need it."""

    uid: str
    namespace: str
    name: str
    scheduler: str = ""
    #: ``namespace/name`` of the pod group, or "".
    group: str = ""
    #: Queue that the pod itself names; for pods without a group.
    own_queue: str = ""
    sub_group: str = ""
    #: Volcano's task name of the pod.
    role: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    #: UID of the controller, or "".
    owner: str = ""
    node: str = ""
    nominated: str = ""
    phase: str = "Pending"
    deleting: bool = False
    gated: bool = False
    #: Volcano's annotation ``volcano.sh/preemptable``; None if it is absent.
    preemptable: bool | None = None
    priority: int | None = None
    priority_class: str = ""
    requests: Amounts = attrs.field(factory=dict)
    grace_seconds: float = _GRACE_SECONDS
    created: float = 0.0
    conditions: tuple[Mapping[str, Any], ...] = ()

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def job(self) -> str:
        """Return the key of the job: the group, or the pod itself without a group."""
        return self.group or self.key

    @property
    def ended(self) -> bool:
        """Return True if the pod succeeded or failed."""
        return self.phase in _ENDED

    @property
    def active(self) -> bool:
        """Return True if the pod holds a node, and is neither ended nor being deleted."""
        return bool(self.node) and not self.ended and not self.deleting

    @property
    def pending(self) -> bool:
        """Return True if the pod waits for a node."""
        return not self.node and not self.ended and not self.deleting

    @property
    def best_effort(self) -> bool:
        """Return True if the pod requests nothing."""
        return not any(amount for name, amount in self.requests.items() if name != "pods")

    def condition(self, kind: str) -> Mapping[str, Any] | None:
        """Return the condition of this type, or None."""
        return next((one for one in self.conditions if one.get("type") == kind), None)


@attrs.frozen(kw_only=True)
class Node:
    """One version of a node."""

    name: str
    allocatable: Amounts
    ready: bool
    unschedulable: bool
    #: Labels and taints; only their change counts.
    constraints: str


@attrs.frozen(kw_only=True)
class PriorityClass:
    """A priority class."""

    name: str
    value: int
    is_default: bool


def read_pod(obj: Mapping[str, Any]) -> Pod:
    """Decode a pod."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    namespace = metadata.get("namespace", "default")
    group = next((annotations[key] for key in _GROUP_KEYS if annotations.get(key)), "")
    owners = metadata.get("ownerReferences") or ()
    preemptable = annotations.get("volcano.sh/preemptable", labels.get("volcano.sh/preemptable"))
    return Pod(
        uid=metadata["uid"],
        namespace=namespace,
        name=metadata["name"],
        scheduler=spec.get("schedulerName", ""),
        group=f"{namespace}/{group}" if group else "",
        own_queue=next((annotations[key] for key in _QUEUE_ANNOTATIONS if annotations.get(key)), "")
        or labels.get("kai.scheduler/queue", ""),
        sub_group=labels.get("kai.scheduler/subgroup-name", ""),
        role=annotations.get("volcano.sh/task-spec", ""),
        labels=labels,
        owner=next((one.get("uid", "") for one in owners if one.get("controller")), ""),
        node=spec.get("nodeName", ""),
        nominated=status.get("nominatedNodeName", ""),
        phase=status.get("phase") or "Pending",
        deleting=bool(metadata.get("deletionTimestamp")),
        gated=bool(spec.get("schedulingGates")),
        preemptable=None if preemptable is None else str(preemptable).lower() in {"true", "1", "t"},
        priority=spec.get("priority"),
        priority_class=spec.get("priorityClassName", ""),
        requests=_requests(spec, annotations),
        grace_seconds=float(spec.get("terminationGracePeriodSeconds", _GRACE_SECONDS)),
        created=timestamp(metadata.get("creationTimestamp")) or 0.0,
        conditions=tuple(status.get("conditions") or ()),
    )


def _requests(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Amounts:
    """Return what the pod requests: containers and sidecars, or the largest init container, plus overhead.

    GPU shares of KAI (annotations ``gpu-fraction`` and ``gpu-fraction-num-devices``) count as parts of devices.
    """
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, _container_requests(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            add(sidecars, own)
            own = sidecars
        else:
            own = {name: own.get(name, 0.0) + sidecars.get(name, 0.0) for name in own.keys() | sidecars.keys()}
        for name, amount in own.items():
            peak[name] = max(peak.get(name, 0.0), amount)
    add(total, sidecars)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0.0), amount)
    add(total, read_amounts(spec.get("overhead")))
    if "gpu-fraction" in annotations:
        devices = quantity(annotations.get("gpu-fraction-num-devices", "1"))
        total[GPU] = total.get(GPU, 0.0) + quantity(annotations["gpu-fraction"]) * devices
    total["pods"] = 1.0
    return total


def _container_requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return read_amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def read_node(obj: Mapping[str, Any]) -> Node:
    """Decode a node. A node without a Ready condition counts as ready."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), None)
    labels = obj["metadata"].get("labels") or {}
    return Node(
        name=obj["metadata"]["name"],
        allocatable=read_amounts(status.get("allocatable")),
        ready=ready is None or ready.get("status") == "True",
        unschedulable=bool(spec.get("unschedulable")),
        constraints=f"{sorted(labels.items())} {spec.get('taints') or []}",
    )


def read_priority_class(obj: Mapping[str, Any]) -> PriorityClass:
    """Decode a priority class."""
    return PriorityClass(
        name=obj["metadata"]["name"], value=int(obj.get("value", 0)), is_default=bool(obj.get("globalDefault"))
    )
