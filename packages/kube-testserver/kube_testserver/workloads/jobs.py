"""Compute which pods a Job needs, and which Jobs a JobSet needs.

Differs from the real controllers: a failed pod is replaced without delay. Success policies, failure policies,
deadlines, and `backoffLimitPerIndex` have no effect.
"""

from __future__ import annotations

import copy
import hashlib
from typing import TYPE_CHECKING, Final

from kube_testserver.workloads.contract import Child, Plan
from kube_testserver.workloads.objects import (
    as_int,
    is_active,
    is_ready,
    merged,
    name_of,
    phase_of,
    pod_of,
    uid_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kube_testserver.workloads.contract import Object, View

__all__ = ["job", "job_set"]

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOBSET: Final = "jobset.sigs.k8s.io"
_EXCLUSIVE: Final = f"alpha.{_JOBSET}/exclusive-topology"
_DEFAULT_BACKOFF_LIMIT: Final = 6


def job(obj: Object, view: View) -> Plan:
    """Return the pods of a Job that should run now."""
    spec, pods = obj["spec"], view.children(obj)
    done = [pod for pod in pods if phase_of(pod) == "Succeeded"]
    failed = sum(phase_of(pod) == "Failed" for pod in pods)
    parallelism, completions = as_int(spec.get("parallelism"), 1), spec.get("completions")
    is_indexed = spec.get("completionMode") == "Indexed"
    indexes = {pod["metadata"].get("annotations", {}).get(_INDEX) for pod in done}
    succeeded = len(indexes) if is_indexed else len(done)
    has_failed = failed > as_int(spec.get("backoffLimit"), _DEFAULT_BACKOFF_LIMIT)
    is_complete = bool(done) if completions is None else succeeded >= completions
    children: tuple[Child, ...] = ()
    if spec.get("suspend") or has_failed or (is_complete and completions is not None):
        pass
    elif is_indexed:
        open_indexes = [index for index in range(as_int(completions, 1)) if str(index) not in indexes]
        children = tuple(Child(obj=_job_pod(obj, index)) for index in open_indexes[:parallelism])
    elif completions is None and done:  # no new pods once one has succeeded
        children = (Child(obj=_job_pod(obj), count=min(parallelism, sum(map(is_active, pods)))),)
    else:
        left = parallelism if completions is None else min(parallelism, completions - succeeded)
        children = (Child(obj=_job_pod(obj), count=left),)
    active = sum(map(is_active, pods))
    status: Object = {"active": active, "ready": sum(map(is_ready, pods)), "succeeded": succeeded, "failed": failed}
    if is_indexed:
        status["completedIndexes"] = ",".join(sorted((str(one) for one in indexes), key=int))
    status |= _ending(obj, view, is_complete=is_complete and not active, has_failed=has_failed)
    return Plan(children=children, status=status)


def _ending(obj: Object, view: View, *, is_complete: bool, has_failed: bool) -> Object:
    """Return the times and conditions of a Job."""
    present = obj.get("status") or {}
    fields: Object = {}
    conditions = [one for one in present.get("conditions") or () if one.get("type") != "Suspended"]
    kinds = {one.get("type") for one in conditions}

    def add(kind: str, reason: str, message: str) -> None:
        if kind not in kinds:
            times = {"lastProbeTime": view.now(), "lastTransitionTime": view.now()}
            conditions.append({"type": kind, "status": "True", "reason": reason, "message": message, **times})

    if obj["spec"].get("suspend"):
        conditions = list(present.get("conditions") or ())
        kinds = {one.get("type") for one in conditions}
        add("Suspended", "JobSuspended", "Job suspended")
    elif not present.get("startTime"):
        fields["startTime"] = view.now()
    if has_failed:
        add("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    elif is_complete and "Failed" not in kinds:
        for kind in ("SuccessCriteriaMet", "Complete"):
            add(kind, "CompletionsReached", "Reached expected number of succeeded pods")
        if not present.get("completionTime"):
            fields["completionTime"] = view.now()
    return {**fields, "conditions": conditions}


def _job_pod(obj: Object, index: int | None = None) -> Object:
    template, name = obj["spec"].get("template") or {}, name_of(obj)
    labels = {
        f"{prefix}{key}": value
        for prefix in ("", "batch.kubernetes.io/")
        for key, value in (("controller-uid", uid_of(obj)), ("job-name", name))
    }
    if index is None:
        return pod_of(template, base=f"{name}-", labels=labels)
    own = {_INDEX: str(index)}
    return pod_of(
        template,
        base=f"{name}-{index}-",
        labels=labels | own,
        annotations=own,
        spec={"hostname": f"{name}-{index}"},
    )


def job_set(obj: Object, view: View) -> Plan:
    """Return the Jobs of a JobSet; with a start-up policy InOrder, later ones after the pods of earlier ones run."""
    spec = obj["spec"]
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    present = view.children(obj)
    children: list[Child] = []
    total = 0
    for replicated in spec.get("replicatedJobs") or ():
        replicas = as_int(replicated.get("replicas"), 1)
        made = [_replicated(obj, replicated, index, total + index) for index in range(replicas)]
        total += replicas
        children += (Child(obj=one) for one in made)
        if in_order and not _all_started([name_of(one) for one in made], present):
            break
    return Plan(children=tuple(children))


def _all_started(names: Sequence[str], jobs: Iterable[Object]) -> bool:
    statuses = {name_of(one): (one["spec"], one.get("status") or {}) for one in jobs}
    for name in names:
        spec, status = statuses.get(name, ({"parallelism": 1}, {}))
        if as_int(status.get("ready"), 0) + as_int(status.get("succeeded"), 0) < as_int(spec.get("parallelism"), 1):
            return False
    return True


def _replicated(obj: Object, replicated: Object, index: int, global_index: int) -> Object:
    """Return one Job of a JobSet."""
    name = f"{name_of(obj)}-{replicated['name']}-{index}"
    key = hashlib.sha1(f"{obj['metadata'].get('namespace', '')}/{name}".encode(), usedforsecurity=False).hexdigest()
    own = {
        f"{_JOBSET}/jobset-name": name_of(obj),
        f"{_JOBSET}/jobset-uid": uid_of(obj),
        f"{_JOBSET}/replicatedjob-name": replicated["name"],
        f"{_JOBSET}/replicatedjob-replicas": str(as_int(replicated.get("replicas"), 1)),
        f"{_JOBSET}/job-index": str(index),
        f"{_JOBSET}/job-global-index": str(global_index),
        f"{_JOBSET}/job-key": key,
        f"{_JOBSET}/restart-attempt": "0",
    }
    template = copy.deepcopy(replicated.get("template") or {})
    spec = template.setdefault("spec", {})
    pod = spec.setdefault("template", {})
    exclusive = merged(obj["metadata"].get("annotations"), (template.get("metadata") or {}).get("annotations")).get(
        _EXCLUSIVE
    )
    annotations = own | ({_EXCLUSIVE: exclusive} if exclusive else {})
    for metadata in (template.setdefault("metadata", {}), pod.setdefault("metadata", {})):
        metadata["labels"] = merged(metadata.get("labels"), own)
        metadata["annotations"] = merged(metadata.get("annotations"), annotations)
    if exclusive:
        _separate(pod.setdefault("spec", {}), exclusive, key)
    if "suspend" in obj["spec"]:
        spec["suspend"] = obj["spec"]["suspend"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**template["metadata"], "name": name}, "spec": spec}


def _separate(spec: Object, topology: str, key: str) -> None:
    """Keep the pods of a Job in one domain of `topology`, without pods of other Jobs.

    JobSet adds these terms to the leader only, and sends the others to its node's domain later.
    """
    affinity = spec.setdefault("affinity", {})
    label = f"{_JOBSET}/job-key"
    mine = {"key": label, "operator": "In", "values": [key]}
    others = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [key]}]
    for field, expressions in (("podAffinity", [mine]), ("podAntiAffinity", others)):
        terms = affinity.setdefault(field, {}).setdefault("requiredDuringSchedulingIgnoredDuringExecution", [])
        selector = {"matchExpressions": expressions}
        terms.append({"labelSelector": selector, "topologyKey": topology, "namespaceSelector": {}})
