"""LeaderWorkerSet: a StatefulSet of leaders, and for each leader a StatefulSet of its workers.

Differs from the real controller: there are no rolling updates, and a failed pod does not restart its group.
"""

from __future__ import annotations

import copy
import hashlib
from typing import TYPE_CHECKING, Final

from kube_testserver.workloads.contract import Child, Plan
from kube_testserver.workloads.objects import as_int, is_ready, merged, name_of, template_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_testserver.workloads.contract import Object, View

__all__ = ["leader_worker_set"]

_PREFIX: Final = "leaderworkerset.sigs.k8s.io"


def leader_worker_set(obj: Object, view: View) -> Plan:
    """Return the StatefulSet of the leaders, and those of the workers whose leader exists."""
    spec, name = obj["spec"], name_of(obj)
    group = spec.get("leaderWorkerTemplate") or {}
    size = as_int(group.get("size"), 1)
    worker = group.get("workerTemplate") or {}
    labels = {f"{_PREFIX}/name": name, f"{_PREFIX}/template-revision-hash": template_hash(group)}
    annotations = {f"{_PREFIX}/size": str(size)}
    leaders = _stateful_set(
        name,
        group.get("leaderTemplate") or worker,
        replicas=as_int(spec.get("replicas"), 1),
        labels={**labels, f"{_PREFIX}/worker-index": "0"},
        annotations=annotations,
        service=name,
    )
    children = [Child(obj=leaders)]
    waits = spec.get("startupPolicy") == "LeaderReady"
    pods = [pod for one in view.children(obj) if one["kind"] == "StatefulSet" for pod in view.children(one)]
    for pod in pods:
        if size < 2 or "deletionTimestamp" in pod["metadata"] or (waits and not is_ready(pod)):
            continue
        key = hashlib.sha1(name_of(pod).encode(), usedforsecurity=False).hexdigest()
        own = {f"{_PREFIX}/group-index": name_of(pod).rpartition("-")[2], f"{_PREFIX}/group-key": key}
        workers = _stateful_set(
            name_of(pod),
            worker,
            replicas=size - 1,
            labels=labels | own,
            annotations={**annotations, f"{_PREFIX}/leader-name": name_of(pod)},
            service=name,
        )
        workers["spec"]["ordinals"] = {"start": 1}
        children.append(Child(obj=workers, owner=pod))
    return Plan(children=tuple(children))


def _stateful_set(
    name: str,
    template: Object,
    *,
    replicas: int,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    service: str,
) -> Object:
    """Return a StatefulSet with a parallel policy."""
    template = copy.deepcopy(template)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = merged(metadata.get("labels"), labels)
    metadata["annotations"] = merged(metadata.get("annotations"), annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "replicas": replicas,
            "serviceName": service,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": dict(labels)},
            "template": template,
        },
    }
