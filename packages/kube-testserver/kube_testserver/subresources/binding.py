"""POST pods/<name>/binding or POST bindings: the request by which a scheduler assigns a pod to a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_objects.times import format_time
from kube_testserver import errors
from kube_testserver.conditions import set_condition
from kube_testserver.resources import builtin
from kube_testserver.rules.validation import check_body

if TYPE_CHECKING:
    from kube_testserver.registry import Registry
    from kube_testserver.store import Object, Record

__all__ = ["bind"]

_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def bind(registry: Registry, namespace: str, name: str, binding: Object, *, dry_run: bool = False) -> Record:
    """Bind the pod of that name as `binding` says, or refuse (400, 404, 409, 500); return the pod as it is now.

    An empty name is the one in the binding.
    """
    check_body(binding, "", "v1", "Binding")
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    name = name or metadata.get("name") or ""
    if metadata.get("name") != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    if metadata.get("namespace") not in (None, "", namespace):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    _check_target(target)
    record = registry.get(builtin.PODS, namespace, name)
    _check_preconditions(record, metadata)
    pod = record.decode()
    spec = pod.setdefault("spec", {})
    why = _refusal(name, pod, spec)
    if why:
        raise errors.conflict("", "pods/binding", name, why)
    spec["nodeName"] = target["name"]
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    set_condition(status, {**scheduled, "lastTransitionTime": format_time(registry.wall())})
    pod_metadata = pod["metadata"]
    if metadata.get("annotations"):
        pod_metadata["annotations"] = {**(pod_metadata.get("annotations") or {}), **metadata["annotations"]}
    labels = {**_topology_of(registry, target["name"]), **(metadata.get("labels") or {})}
    if labels:
        pod_metadata["labels"] = {**(pod_metadata.get("labels") or {}), **labels}
    # It had no node before, so whatever it was, it is not the same now.
    return registry.put(builtin.PODS, record, pod, before={}, dry_run=dry_run)


def _check_target(target: dict[str, Any]) -> None:
    if target.get("kind") not in (None, "", "Node"):
        shown = errors.FieldProblem.unsupported("target.kind", target["kind"], ["Node", "<empty>"])
    elif not target.get("name"):
        shown = errors.FieldProblem.required("target.name")
    else:
        return
    # The real server forgets to dress this one up: it is its only refusal without a reason.
    raise errors.StatusError(f"{shown.field}: {shown.message}", code=500, reason="")


def _check_preconditions(record: Record, metadata: Object) -> None:
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != record.uid:
        why = f"UID in precondition: {uid}, UID in object meta: {record.uid}"
    elif version and version != str(record.version):
        why = f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: {record.version}"
    else:
        return
    raise errors.precondition_failed("", "pods", record.name, f"{builtin.PODS.registry_path}/{record.key}", why)


def _refusal(name: str, pod: Object, spec: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _topology_of(registry: Registry, node_name: str) -> dict[str, str]:
    node = registry.collection(builtin.NODES).get(node_name)
    if node is None:
        return {}
    return {key: node.labels[key] for key in _TOPOLOGY_LABELS if key in node.labels}
