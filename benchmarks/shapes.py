"""Make the objects of the benchmarks, such as nodes and pods, as manifests of realistic size."""

from __future__ import annotations

from typing import Any, Final

from benchmarks import cases
from benchmarks.weight import managed, running_status
from pyscheduler.testing.builders import node_manifest, pod_manifest

__all__ = ["DISTINCT", "LABEL", "SCHEDULER", "namespace", "node", "pod", "priority_class", "service"]

#: The `schedulerName` of measured pods; no other scheduler takes them.
SCHEDULER: Final = "pyscheduler-bench"
#: On everything that is made here and belongs to no namespace.
LABEL: Final = "pyscheduler.test/bench"
#: How many pod specs there are where they differ.
DISTINCT: Final = 500
_IMAGE: Final = "registry.k8s.io/pause:3.10"

Manifest = dict[str, Any]


def namespace(name: str, labels: dict[str, str] | None = None) -> Manifest:
    """Return a namespace of the benchmark."""
    metadata = {"name": f"bench-{name}", "labels": {LABEL: "true", **(labels or {})}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def node(name: str, shape: str, labels: dict[str, str] | None = None) -> Manifest:
    """Return a node of a shape, named so unless the shape has a name for it."""
    fields = cases.shapes()[shape]
    manifest = node_manifest(
        fields.get("fixed_name", name),
        allocatable=fields["capacity"],
        labels={LABEL: "true", "kubernetes.io/os": "linux", **(labels or {}), **fields.get("labels", {})},
        taints=fields.get("taints", ()),
        images={f"registry.example/image-{image}:v1": 10_000_000 for image in range(20)},
        status={"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
    )
    manifest["metadata"]["managedFields"] = [managed("kubelet"), managed("node-controller", 18)]
    return manifest


def pod(name: str, shape: str, in_namespace: str, *, kind: int = 0, node_name: str = "") -> Manifest:
    """Return a pod of a shape, running where a node is given; pods of another `kind` differ in what plugins look at."""
    fields = cases.shapes()[shape]
    spec: Manifest = {"terminationGracePeriodSeconds": 0} if "terminationGracePeriodSeconds" in fields else {}
    affinity = _affinity(fields)
    requests = None
    if isinstance(fields["requests"], dict):
        requests = dict(fields["requests"])
        if kind:
            requests["memory"] = f"{int(requests['memory'].removesuffix('Mi')) + kind}Mi"
    elif kind:
        spec["tolerations"] = [{"key": f"kind-{kind}", "operator": "Exists"}]
    if spread := [_spread(constraint) for constraint in fields.get("topologySpread", ())]:
        spec["topologySpreadConstraints"] = spread
    if priority := fields.get("priority"):
        spec["priorityClassName"] = priority_class(priority)["metadata"]["name"]
    manifest = pod_manifest(
        name,
        namespace=f"bench-{in_namespace}",
        scheduler_name=SCHEDULER,
        requests=requests,
        labels={"app": "bench", **fields.get("labels", {})},
        affinity=affinity or None,
        scheduling_gates=[gate["name"] for gate in fields.get("schedulingGates", ())],
        node_name=node_name,
        images=(_IMAGE,),
        spec=spec,
        status=running_status() if node_name else None,
    )
    manifest["metadata"]["managedFields"] = [managed("bench"), managed("job-controller", 10 if not node_name else 6)]
    if "finalizers" in fields:
        manifest["metadata"]["finalizers"] = fields["finalizers"]
    return manifest


def service(name: str, in_namespace: str) -> Manifest:
    """Return a service for the pods that bear upstream's label."""
    spec = {"selector": {"app": "scheduler-perf"}, "ports": [{"protocol": "TCP", "port": 80}]}
    metadata = {"name": name, "namespace": f"bench-{in_namespace}"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def priority_class(value: int) -> Manifest:
    """Return the class of that priority."""
    metadata = {"name": f"bench-{value}", "labels": {LABEL: "true"}}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


def _affinity(fields: Manifest) -> Manifest:
    affinity: Manifest = {}
    for name in ("podAffinity", "podAntiAffinity"):
        terms: Manifest = {}
        if required := fields.get(f"{name}_required"):
            terms["requiredDuringSchedulingIgnoredDuringExecution"] = [_term(term) for term in required]
        if preferred := fields.get(f"{name}_preferred"):
            terms["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": term["weight"], "podAffinityTerm": _term(term)} for term in preferred
            ]
        if terms:
            affinity[name] = terms
    if required := fields.get("nodeAffinity_required"):
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}}
        affinity["nodeAffinity"] = terms
    return affinity


def _term(term: Manifest) -> Manifest:
    made: Manifest = {"topologyKey": term["topologyKey"], "labelSelector": {"matchLabels": term["labelSelector"]}}
    if "namespaces" in term:
        made["namespaces"] = [f"bench-{name}" for name in term["namespaces"]]
    if "namespaceSelector" in term:
        made["namespaceSelector"] = {"matchLabels": term["namespaceSelector"]}
    return made


def _spread(constraint: Manifest) -> Manifest:
    made = {name: value for name, value in constraint.items() if name != "labelSelector"}
    # Two fields are spelt as in Go in upstream's file.
    made = {name[0].lower() + name[1:]: value for name, value in made.items()}
    return {**made, "labelSelector": {"matchLabels": constraint["labelSelector"]}}
