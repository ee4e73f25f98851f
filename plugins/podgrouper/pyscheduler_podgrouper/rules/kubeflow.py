"""The PodGroups of the Kubeflow training jobs: TFJob, XGBoostJob, JAXJob, MPIJob and PyTorchJob.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/plugins/kubeflow`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler_podgrouper.contract import GroupPlan, Owner, SubGroupPlan
from pyscheduler_podgrouper.fields import GroupingError, failing_as, go_integer, int32, integer, mapping, text
from pyscheduler_podgrouper.generic import generic
from pyscheduler_podgrouper.rules.segments import SEGMENT_SIZE, segment_topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import Lookup, Rule

__all__ = ["kubeflow_rule", "mpi_job", "pytorch_job"]

_MASTER: Final = "Master"
_WORKER: Final = "Worker"
_LAUNCHER: Final = "Launcher"
_MPI_ROLES: Final = "mpiReplicaSpecs"
_PYTORCH_ROLES: Final = "pytorchReplicaSpecs"
_REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"
_REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
_JOB_NAME: Final = "training.kubeflow.org/job-name"
_JOB_ROLE: Final = "training.kubeflow.org/job-role"
_MIN_AVAILABLE: Final = ("spec", "runPolicy", "schedulingPolicy", "minAvailable")


def kubeflow_rule(roles: str, *, mandatory: Sequence[str] = ()) -> Rule:
    """Return the rule of a kind whose replicas are under `spec.<roles>`."""

    def rule(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
        return _common(top, pod, lookup, roles, mandatory)

    return rule


def _common(top: Owner, pod: Pod, lookup: Lookup, roles: str, mandatory: Sequence[str]) -> GroupPlan:
    """Return a group of all replicas, or of as many as the scheduling policy says."""
    plan = generic(top, (), pod, lookup)
    minimum = integer(top.body, *_MIN_AVAILABLE)
    if minimum is None:
        minimum = _replicas(top, roles, mandatory)
    return attrs.evolve(plan, min_member=int32(minimum, "minAvailable"))


def _replicas(top: Owner, roles: str, mandatory: Sequence[str]) -> int:
    """Return the sum of the replicas of all roles."""
    found = mapping(top.body, "spec", roles)
    said = f"the type of the job {top.name} doesn't"
    remedy = "Please fix the replica field"
    if found is None:
        raise GroupingError(f"{said} have a {roles} field. {remedy}")
    for name in mandatory:
        if name not in found:
            raise GroupingError(f"{said} have a {name} replica spec which is required. {remedy}")
    total = 0
    for name in found:
        replicas = integer(top.body, "spec", roles, name, "replicas")
        if not replicas:
            raise GroupingError(f"{said} allow for 0 {name} pods. {remedy}")
        total += replicas
    if total <= 0:
        raise GroupingError(
            f"failed calculate number of pods for a distributed job {top.name}. Must be greater than 0, but got {total}"
        )
    return total


# --- MPIJob ---------------------------------------------------------------------------------------


def mpi_job(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of an MPIJob; a launcher that is created later does not count before it exists."""
    plan = _common(top, pod, lookup, _MPI_ROLES, (_LAUNCHER, _WORKER))
    if text(top.body, "spec", "launcherCreationPolicy") != "WaitForWorkersReady":
        return plan
    launchers = lookup.pods(pod.namespace, labels={_JOB_NAME: top.name, _JOB_ROLE: "launcher"})
    if any(not each.is_terminating for each in launchers):
        return plan
    replicas = _or_none(lambda: integer(top.body, "spec", _MPI_ROLES, _LAUNCHER, "replicas"))
    if not replicas:
        raise GroupingError(
            f"the type of the job {top.name} doesn't allow for 0 {_MPI_ROLES} pods. Please fix the replica field"
        )
    return attrs.evolve(plan, min_member=plan.min_member - replicas)


# --- PyTorchJob -----------------------------------------------------------------------------------


def pytorch_job(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of a PyTorchJob, with sub-groups for the master, the workers and their segments."""
    plan = _common(top, pod, lookup, _PYTORCH_ROLES, ())
    job = f"PyTorchJob {top.namespace}/{top.name}"
    with failing_as(f"failed to get {_PYTORCH_ROLES} from {job}"):
        roles = mapping(top.body, "spec", _PYTORCH_ROLES)
    minimum = _or_none(lambda: integer(top.body, *_MIN_AVAILABLE))
    if minimum is None:
        minimum = _elastic_minimum(top, roles or {})
    if minimum is not None:
        plan = attrs.evolve(plan, min_member=int32(minimum, "minReplicas"))
    if roles is None:
        raise GroupingError(f"{_PYTORCH_ROLES} not found in {job}")
    with failing_as(f"failed to get replicas from {_PYTORCH_ROLES}[{_MASTER}] in {job}"):
        masters = _least(roles, _MASTER) or 0
    sub_groups = []
    if masters:
        sub_groups.append(SubGroupPlan(name="master", min_member=masters, pods=_pods_of(pod, _MASTER)))
    sub_groups += _worker_groups(top, roles, pod, max(0, plan.min_member - masters))
    return attrs.evolve(plan, sub_groups=tuple(sub_groups))


def _elastic_minimum(top: Owner, roles: Mapping[str, Any]) -> int | None:
    """Return the minimum of an elastic job; None if the job is not elastic.

    Differs from KAI: a role may have `minReplicas` of its own, which counts for that role.
    """
    if any(_own_minimum(roles, name) is not None for name in roles):
        return sum(_least(roles, name) or 0 for name in roles)
    return _or_none(lambda: integer(top.body, "spec", "elasticPolicy", "minReplicas"))


def _own_minimum(roles: Mapping[str, Any], role: str) -> int | None:
    return _or_none(lambda: integer(roles, role, "minReplicas"))


def _least(roles: Mapping[str, Any], role: str) -> int | None:
    """Return the least number of pods of a role; None if it does not say how many."""
    own = _own_minimum(roles, role)
    return integer(roles, role, "replicas") if own is None else own


def _or_none(read: Callable[[], int | None]) -> int | None:
    """Return what `read` returns; None for a field of another type."""
    try:
        return read()
    except GroupingError:
        return None


def _pods_of(pod: Pod, role: str) -> tuple[str, ...]:
    return (pod.name,) if pod.labels.get(_REPLICA_TYPE) == role.lower() else ()


def _worker_groups(top: Owner, roles: Mapping[str, Any], pod: Pod, minimum: int) -> list[SubGroupPlan]:
    """Return the sub-group of the workers, and its segments."""
    if _WORKER not in roles:
        return []
    with failing_as("failed to get replicas for worker groups"):
        said = integer(roles, _WORKER, "replicas")
    workers = 1 if said is None else said
    size = _segment_size(pod, roles)
    if size is None:
        return [SubGroupPlan(name="worker", min_member=minimum, pods=_pods_of(pod, _WORKER))]
    index = _segment_index(pod, size)
    topology = segment_topology(top, pod, mapping(roles, _WORKER))
    segments = [
        SubGroupPlan(
            name=f"worker-{number}",
            min_member=min(size, workers - number * size),
            parent="worker",
            topology=topology,
            pods=(pod.name,) if number == index else (),
        )
        for number in range(-(-workers // size))
    ]
    return [SubGroupPlan(name="worker", min_member=minimum), *segments]


def _segment_size(pod: Pod, roles: Mapping[str, Any]) -> int | None:
    """Return the size of a segment: of the pod, else of the template of the workers; None without segments."""
    said, where = pod.annotations.get(SEGMENT_SIZE, ""), f"on pod {pod.namespace}/{pod.name}"
    if not said:
        said = text(roles, _WORKER, "template", "metadata", "annotations", SEGMENT_SIZE) or ""
        where = "on worker podTemplate"
    if not said:
        return None
    size = go_integer(said)
    if size is None:
        raise GroupingError(f"invalid segment size {said} {where}, err: it is not a number")
    if size <= 0:
        raise GroupingError(f"segment size {said} {where} needs to be a positive integer")
    return int32(size, "segment size")


def _segment_index(pod: Pod, size: int) -> int:
    """Return the index of a worker's segment; -1 for other pods."""
    if not _pods_of(pod, _WORKER):
        return -1
    said = pod.labels.get(_REPLICA_INDEX)
    if said is None:
        raise GroupingError(f"replica index label not found on pod {pod.namespace}/{pod.name}")
    index = go_integer(said)
    if index is None or index < 0:
        raise GroupingError(f"invalid replica index {said}, err: it is not an index")
    return index // size
