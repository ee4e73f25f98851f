"""Change the dump of a cluster: remove and add nodes, and add objects that the dump lacks, such as namespaces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import ConfigError
from pyscheduler_batch.gpu_sharing.books import GROUP_LABEL
from pyscheduler_lab.clusters.forms import read_shape
from pyscheduler_lab.simulation.replay_objects import new_namespace
from pyscheduler_lab.whatif.dump import is_terminal, key_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyscheduler_lab.clusters.node import Node
    from pyscheduler_lab.whatif.dump import Dump, Object

__all__ = ["Addition", "Change", "Changed", "apply_change", "controller_kind", "read_addition", "recreated"]

_NODES: Final = re.compile(r"(?P<count>[1-9]\d{0,4})x(?:like:(?P<like>\S+)|(?P<shape>\S+))")
_HOST_LABEL: Final = "kubernetes.io/hostname"
#: Taints that Kubernetes gives a node because of its state; a new node has none of them.
_TAINTS_OF_STATE: Final = "node.kubernetes.io/"
#: Written by the kubelet or on binding; the pod that a controller creates again does not have it.
_RUN_DURATION: Final = "pyscheduler.io/run-duration"
_BOUND_ANNOTATIONS: Final = frozenset({"received-resource-type", _RUN_DURATION})
_METADATA: Final = ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers")
#: The owners whose pods run on one node only; a Node owns its static pods.
_OF_ONE_NODE: Final = frozenset({"DaemonSet", "Node"})


@attrs.frozen(kw_only=True)
class Addition:
    """Nodes to add: `count` nodes of a shape, or copies of the node of the dump that `like` names."""

    count: int
    shape: Node | None = None
    like: str = ""


@attrs.frozen(kw_only=True)
class Change:
    """The nodes to remove by name, and the nodes to add."""

    removed: Sequence[str] = ()
    added: Sequence[Addition] = ()

    def with_more(self, addition: Addition) -> Change:
        """Return this change with more nodes."""
        return attrs.evolve(self, added=(*self.added, addition)) if addition.count else self


@attrs.frozen(kw_only=True)
class Changed:
    """The objects after a change."""

    objects: Sequence[Object]
    #: By `namespace/name` of a pod that nobody creates again, why it was evicted.
    lost: Mapping[str, str]
    #: `namespace/name` of the pods that ended with their node.
    ended: Sequence[str]
    #: By `namespace/name` of a pod that was evicted and created again, why it was evicted.
    evicted: Mapping[str, str]
    #: Number of pods that were being deleted in the dump, which are left out.
    leaving: int


def read_addition(text: str, *, option: str, counted: bool = True) -> Addition:
    """Read `3x8gpu`, `3x8gpu:A100,96cpu,1Ti` or `3xlike:NODE`; without `counted`, the same without `3x`, as one node.

    Raises `ConfigError`, which names the option, for anything else.
    """
    found = _NODES.fullmatch(text if counted else f"1x{text}")
    try:
        if found is not None and found["like"]:
            return Addition(count=int(found["count"]), like=found["like"])
        if found is not None:
            return Addition(count=int(found["count"]), shape=read_shape(found["shape"]))
    except ConfigError:
        found = None
    times = "3x" if counted else ""
    form = f"{times}8gpu, {times}8gpu:A100,96cpu,1Ti or {times}like:NODE"
    raise ConfigError(f'{option}: "{text}" must be like {form}')


def apply_change(dump: Dump, change: Change) -> Changed:
    """Return the objects of the dump after the change; raise `ConfigError` for a node that is not there."""
    known = {one["metadata"]["name"] for one in dump.of_kind("Node")}
    for name in (*change.removed, *(each.like for each in change.added if each.like)):
        if name not in known:
            raise ConfigError(f'no node "{name}" in it', source=dump.source)
    removed = frozenset(change.removed)
    objects: list[Object] = []
    lost: dict[str, str] = {}
    ended: list[str] = []
    evicted: dict[str, str] = {}
    leaving = 0
    for one in dump.objects:
        if _is_part_of(one, removed):
            continue
        if one["kind"] != "Pod" or is_terminal(one):
            objects.append(one)
        elif one["metadata"].get("deletionTimestamp"):
            leaving += 1
        elif (one.get("spec") or {}).get("nodeName") in removed:
            pod, why = name_of(one), f"node {one['spec']['nodeName']} was removed"
            owner = controller_kind(one)
            if owner in _OF_ONE_NODE:
                ended.append(pod)
            elif not owner:
                lost[pod] = why
            else:
                evicted[pod] = why
                objects.append(recreated(one))
        else:
            objects.append(_steady(one))
    objects += _claim_templates(dump)
    objects += _namespaces(dump)
    number = 0
    for addition in change.added:
        for found in _new_nodes(dump, addition, first=number, taken=known):
            objects += found
        number += addition.count
    return Changed(objects=objects, lost=lost, ended=ended, evicted=evicted, leaving=leaving)


def controller_kind(pod: Object) -> str:
    """Return the kind of the controller that creates a pod again after its eviction; "" without a controller."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner.get("kind") or "") for owner in owners if owner.get("controller")), "")


def recreated(pod: Object) -> Object:
    """Return a pod as its controller creates it again, under the same name."""
    metadata = {name: value for name, value in pod["metadata"].items() if name in _METADATA}
    metadata["labels"] = {
        name: value
        for name, value in (metadata.get("labels") or {}).items()
        if name.partition("/")[0] != GROUP_LABEL  # the shared GPU that the pod had
    }
    metadata["annotations"] = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if name not in _BOUND_ANNOTATIONS
    }
    spec = {name: value for name, value in pod["spec"].items() if name not in {"nodeName", "ephemeralContainers"}}
    return {"apiVersion": pod.get("apiVersion"), "kind": "Pod", "metadata": metadata, "spec": spec}


def _steady(pod: Object) -> Object:
    """Return a pod that does not end by itself, and whose status has no reason of an earlier scheduler to wait."""
    annotations = pod["metadata"].get("annotations") or {}
    status = pod.get("status") or {}
    conditions = status.get("conditions") or ()
    kept = [one for one in conditions if one.get("type") != "PodScheduled" or one.get("status") == "True"]
    if _RUN_DURATION not in annotations and len(kept) == len(conditions):
        return pod
    steady = {name: value for name, value in annotations.items() if name != _RUN_DURATION}
    changed = {**pod, "metadata": {**pod["metadata"], "annotations": steady}}
    if len(kept) < len(conditions):
        changed["status"] = {**status, "conditions": kept}
    return changed


def _is_part_of(one: Object, nodes: frozenset[str]) -> bool:
    """Return True for a removed node, and for what describes it: its CSINode and its ResourceSlices."""
    if one["kind"] in {"Node", "CSINode"}:
        return one["metadata"]["name"] in nodes
    return one["kind"] == "ResourceSlice" and (one.get("spec") or {}).get("nodeName") in nodes


def _namespaces(dump: Dump) -> list[Object]:
    """Return the namespaces that objects of the dump name, also those of pods that are left out."""
    names = dict.fromkeys(filter(None, (one["metadata"].get("namespace") for one in dump.objects)))
    return [*map(new_namespace, names)]


def _claim_templates(dump: Dump) -> Iterator[Object]:
    """Yield the templates of claims that pods name and that the dump lacks, with the spec of a claim made from each.

    Schedulers do not read templates, so their snapshots have none. A pod that is created again needs its template.
    """
    known = {key_of(one)[1:] for one in dump.of_kind("ResourceClaimTemplate")}
    claims = {key_of(one)[1:]: one for one in dump.of_kind("ResourceClaim")}
    for pod in dump.of_kind("Pod"):
        wanted = (pod.get("spec") or {}).get("resourceClaims") or ()
        namespace = key_of(pod)[1]
        statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        made = {one.get("name"): one.get("resourceClaimName") for one in statuses}
        for each in wanted:
            template = each.get("resourceClaimTemplateName")
            claim = claims.get((namespace, made.get(each.get("name")) or ""))
            if template and claim is not None and (namespace, template) not in known:
                known.add((namespace, template))
                yield {
                    "apiVersion": claim["apiVersion"],
                    "kind": "ResourceClaimTemplate",
                    "metadata": {"name": template, "namespace": namespace},
                    "spec": {"spec": claim.get("spec") or {}},
                }


def _new_nodes(dump: Dump, addition: Addition, *, first: int, taken: set[str]) -> Iterator[list[Object]]:
    """Yield the objects of each new node; names that the dump has are passed over."""
    number = first
    parts = [one for one in dump.objects if _is_part_of(one, frozenset({addition.like}))] if addition.like else []
    for _ in range(addition.count):
        while (name := f"added-{number}") in taken:
            number += 1
        number += 1
        if addition.shape is not None:
            yield [attrs.evolve(addition.shape, name=name).as_object()]
        else:
            yield [_renamed(one, addition.like, name) for one in parts]


def _renamed(one: Object, old: str, name: str) -> Object:
    """Return a copy of a node, or of an object that describes it, for another node."""
    if one["kind"] == "Node":
        return _renamed_node(one, name)
    if one["kind"] == "CSINode":
        return {**one, "metadata": {"name": name}}
    pool = one["spec"].get("pool") or {}
    pool = {**pool, "name": _name_for(name, old, str(pool.get("name") or ""))}
    metadata = {"name": _name_for(name, old, one["metadata"]["name"])}
    return {**one, "metadata": metadata, "spec": {**one["spec"], "nodeName": name, "pool": pool}}


def _name_for(node: str, old: str, name: str) -> str:
    """Return the name of a slice or a pool of the node `old`, for another node."""
    return name.replace(old, node) if old in name else "-".join(filter(None, (node, name)))


def _renamed_node(node: Object, name: str) -> Object:
    labels = {**(node["metadata"].get("labels") or {}), _HOST_LABEL: name}
    spec = node.get("spec") or {}
    taints = [one for one in spec.get("taints") or () if not str(one.get("key")).startswith(_TAINTS_OF_STATE)]
    status = node.get("status") or {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": status.get("capacity") or {},
            "allocatable": status.get("allocatable") or {},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
