"""Compute the pods and other objects that a Deployment, ReplicaSet, StatefulSet or DaemonSet should have.

Differs from kube-controller-manager: there are no rolling updates.
"""

from __future__ import annotations

import copy
import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.codec import decode
from kube_objects.node_selectors import required_node_affinity
from kube_objects.pods import Pod
from kube_objects.taints import Taint, find_untolerated
from kube_testserver.workloads.contract import Child, Plan
from kube_testserver.workloads.objects import (
    as_int,
    is_active,
    is_ready,
    merged,
    name_of,
    pod_of,
    template_hash,
)
from kube_testserver.workloads.problems import REPLICA_FAILURE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_testserver.workloads.contract import Object, View

__all__ = ["daemon_set", "deployment", "replica_set", "stateful_set"]

_HASH: Final = "pod-template-hash"
_REVISION: Final = "controller-revision-hash"
_LWS: Final = "leaderworkerset.sigs.k8s.io"
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


def _counts(obj: Object, pods: Sequence[Object]) -> Object:
    """Return the part of a status that all four kinds have."""
    ready = sum(map(is_ready, pods))
    return {
        "replicas": sum(map(is_active, pods)),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": obj["metadata"].get("generation", 1),
    }


def deployment(obj: Object, view: View) -> Plan:
    """Return the ReplicaSet of the present template; ReplicaSets of earlier templates get no replicas."""
    spec = obj["spec"]
    template, replicas = spec.get("template") or {}, as_int(spec.get("replicas"), 1)
    name = f"{name_of(obj)}-{template_hash(template)}"
    own = {_HASH: name.rpartition("-")[2]}
    metadata = template.get("metadata") or {}
    labels = merged(metadata.get("labels"), own)
    selector = spec.get("selector") or {}
    present = view.children(obj)
    latest = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {**selector, "matchLabels": merged(selector.get("matchLabels"), own)},
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
    older = [{**one, "spec": {**one["spec"], "replicas": 0}} for one in present if name_of(one) != name]
    statuses = [one.get("status") or {} for one in present]
    counts = {
        field: sum(as_int(status.get(field), 0) for status in statuses)
        for field in ("replicas", "readyReplicas", "availableReplicas")
    }
    updated = sum(as_int((one.get("status") or {}).get("replicas"), 0) for one in present if name_of(one) == name)
    is_available = counts["availableReplicas"] >= replicas
    condition = {
        "type": "Available",
        "status": "True" if is_available else "False",
        "reason": "MinimumReplicasAvailable" if is_available else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if is_available else 'does not have'} minimum availability.",
    }
    is_complete = counts["replicas"] == counts["availableReplicas"] == updated == replicas
    progress = {
        "type": "Progressing",
        "status": "True",
        "reason": "NewReplicaSetAvailable" if is_complete else "ReplicaSetUpdated",
        "message": f'ReplicaSet "{name}" {"has successfully progressed" if is_complete else "is progressing"}.',
    }
    status = {
        **counts,
        "updatedReplicas": updated,
        "observedGeneration": obj["metadata"].get("generation", 1),
        "conditions": [condition, progress, *_replica_failure(sorted(present, key=lambda one: name_of(one) != name))],
    }
    return Plan(children=tuple(Child(obj=one) for one in (latest, *older)), status=status)


def _replica_failure(replica_sets: Sequence[Object]) -> Sequence[Object]:
    """Return the condition of a Deployment for the first ReplicaSet that could not create its pods."""
    for replica_set in replica_sets:
        for one in (replica_set.get("status") or {}).get("conditions") or ():
            if one.get("type") == REPLICA_FAILURE:
                return [{**one, "lastUpdateTime": one.get("lastTransitionTime")}]
    return ()


def replica_set(obj: Object, view: View) -> Plan:
    """Return as many pods as the ReplicaSet wants; pods that ended are replaced."""
    spec = obj["spec"]
    pod = pod_of(spec.get("template") or {}, base=f"{name_of(obj)}-")
    children = (Child(obj=pod, count=as_int(spec.get("replicas"), 1)),)
    return Plan(children=children, status=_counts(obj, view.children(obj)), reports_failure=True)


def stateful_set(obj: Object, view: View) -> Plan:
    """Return one pod for each ordinal, in order unless the policy is Parallel, and the claims of the pods."""
    spec, name = obj["spec"], name_of(obj)
    pods = {name_of(pod): pod for pod in view.children(obj)}
    first = as_int((spec.get("ordinals") or {}).get("start"), 0)
    revision = f"{name}-{template_hash(spec.get('template') or {})}"
    children: list[Child] = []
    is_blocked = False
    for ordinal in range(first, first + as_int(spec.get("replicas"), 1)):
        present = pods.get(f"{name}-{ordinal}")
        if not is_blocked or present is not None:
            children += _member(obj, ordinal, revision)
        is_ordered = spec.get("podManagementPolicy") != "Parallel"
        is_blocked |= is_ordered and (present is None or not is_ready(present))
    counts = _counts(obj, [*pods.values()])
    status = {
        **counts,
        "currentReplicas": counts["replicas"],
        "updatedReplicas": counts["replicas"],
        "currentRevision": revision,
        "updateRevision": revision,
    }
    return Plan(children=tuple(children), status=status)


def _member(obj: Object, ordinal: int, revision: str) -> list[Child]:
    """Return the pod of an ordinal and its claims."""
    spec = obj["spec"]
    template, name = spec.get("template") or {}, f"{name_of(obj)}-{ordinal}"
    own = {"apps.kubernetes.io/pod-index": str(ordinal), "statefulset.kubernetes.io/pod-name": name}
    own |= {_REVISION: revision} | _leader_worker_labels(template, name, ordinal)
    pod = pod_of(template, name=name, labels=own, spec={"hostname": name, "subdomain": spec.get("serviceName") or ""})
    claims = []
    for claim in spec.get("volumeClaimTemplates") or ():
        metadata = {"name": f"{name_of(claim)}-{name}"}
        if labels := (spec.get("selector") or {}).get("matchLabels"):
            metadata["labels"] = labels
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim.get("spec")}
        claims.append((name_of(claim), body))
    if claims:
        others = [one for one in pod["spec"].get("volumes") or () if one.get("name") not in dict(claims)]
        volumes = [{"name": key, "persistentVolumeClaim": {"claimName": name_of(claim)}} for key, claim in claims]
        pod["spec"]["volumes"] = [*others, *volumes]
    return [*(Child(obj=claim, owned=False) for _, claim in claims), Child(obj=pod, replace_failed=True)]


def _leader_worker_labels(template: Object, name: str, ordinal: int) -> dict[str, str]:
    """Return what the webhook of LeaderWorkerSet adds to the pods of its StatefulSets."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    if f"{_LWS}/name" not in labels:
        return {}
    if labels.get(f"{_LWS}/worker-index") != "0":
        return {f"{_LWS}/worker-index": str(ordinal)}
    key = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    return {f"{_LWS}/group-index": str(ordinal), f"{_LWS}/group-key": key}


def daemon_set(obj: Object, view: View) -> Plan:
    """Return one pod for each node that its affinity and tolerations admit."""
    template, name = obj["spec"].get("template") or {}, name_of(obj)
    labels = {_REVISION: template_hash(template), "pod-template-generation": "1"}
    tolerations = [
        *((template.get("spec") or {}).get("tolerations") or ()),
        *({"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED),
    ]
    base = pod_of(template, base=f"{name}-", labels=labels, spec={"tolerations": tolerations})
    typed = decode(Pod, msgspec.json.encode({**base, "metadata": {"name": name}}))
    affinity = required_node_affinity(typed)
    children = []
    for node in view.nodes():
        taints = msgspec.convert((node.get("spec") or {}).get("taints") or (), tuple[Taint, ...])
        is_tolerated = find_untolerated(taints, typed.spec.tolerations) is None
        if is_tolerated and affinity.matches(node["metadata"].get("labels") or {}, name_of(node)):
            children.append(Child(obj=_pinned(base, name_of(node)), replace_failed=True))
    pods = view.children(obj)
    ready, active = sum(map(is_ready, pods)), sum(map(is_active, pods))
    status = {
        "currentNumberScheduled": active,
        "desiredNumberScheduled": len(children),
        "updatedNumberScheduled": active,
        "numberReady": ready,
        "numberAvailable": ready,
        "numberMisscheduled": 0,
        "observedGeneration": obj["metadata"].get("generation", 1),
    }
    return Plan(children=tuple(children), status=status)


def _pinned(pod: Object, node: str) -> Object:
    """Return a pod that must run on that node: its name is added to each required term of node affinity."""
    spec = copy.deepcopy(pod["spec"])
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required["nodeSelectorTerms"] = [{**term, "matchFields": [field]} for term in terms]
    return {**pod, "spec": spec}
