"""LeaderWorkerSet: a pod group for each leader and its workers.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/plugins/leaderworkerset`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_podgrouper.contract import GroupPlan, Owner, SubGroupPlan
from pyscheduler_podgrouper.fields import GroupingError, failing_as, go_integer, int32, integer, mapping, text
from pyscheduler_podgrouper.generic import generic
from pyscheduler_podgrouper.rules.segments import SEGMENT_SIZE, segment_topology

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import Lookup

__all__ = ["leader_worker_set"]

_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
_TEMPLATE: Final = ("spec", "leaderWorkerTemplate")
_LEADER: Final = "leader"
_WORKERS: Final = "workers"


def leader_worker_set(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of one replica of a LeaderWorkerSet: its leader and its workers."""
    plan = generic(top, (), pod, lookup)
    size = _group_size(top)
    index = go_integer(pod.labels.get(_GROUP_INDEX, ""))
    if index is not None:
        plan = attrs.evolve(plan, name=f"{plan.name}-group-{index}")
    where = f"LWS {top.namespace}/{top.name}"
    with failing_as(f"failed to get startupPolicy from {where}"):
        policy = text(top.body, "spec", "startupPolicy")
    if policy == "LeaderReady":
        size = _leader_ready_size(pod, size, plan, lookup)
        plan = attrs.evolve(plan, follows_nodes=True)
    elif policy not in {None, "LeaderCreated"}:
        raise GroupingError(f"unknown startupPolicy: {policy}")
    return attrs.evolve(plan, min_member=size, sub_groups=tuple(_sub_groups(top, pod, size, where)))


def _group_size(top: Owner) -> int:
    with failing_as(f"failed to get leaderWorkerTemplate.size from LWS {top.namespace}/{top.name}"):
        size = integer(top.body, *_TEMPLATE, "size")
    if size is None:
        raise GroupingError(f"leaderWorkerTemplate.size not found in LWS {top.namespace}/{top.name}")
    if size <= 0:
        raise GroupingError(f"invalid leaderWorkerTemplate.size {size} in LWS {top.namespace}/{top.name}")
    return int32(size, "leaderWorkerTemplate.size")


def _is_leader(pod: Pod) -> bool:
    return pod.labels.get(_WORKER_INDEX) == "0"


def _leader_ready_size(pod: Pod, size: int, plan: GroupPlan, lookup: Lookup) -> int:
    """Return 1 while only the leader exists, because workers are created once it is ready; else the whole size.

    Differs from KAI: a leader that is created again does not lower the minimum of a group with active members.
    """
    if _is_leader(pod) and not pod.node_name:
        others = (each for each in lookup.members(plan.namespace, plan.name) if each.uid != pod.uid)
        if not any(each.node_name and not each.is_terminal and not each.is_terminating for each in others):
            return 1
    said = go_integer(pod.annotations.get(_SIZE, ""))
    return size if said is None else int32(said, _SIZE)


# --- sub-groups -----------------------------------------------------------------------------------


def _sub_groups(top: Owner, pod: Pod, size: int, where: str) -> list[SubGroupPlan]:
    with failing_as(f"failed to get sub group policy for {where}"):
        segment = _segment_size(top, size)
        policy = text(top.body, *_TEMPLATE, "subGroupPolicy", "subGroupPolicyType") if segment is not None else None
    if segment is None:
        return _leader_and_workers(pod, size, parent=None, has_workers=not _is_leader(pod))
    index = go_integer(pod.labels.get(_WORKER_INDEX, ""))
    if index is None:
        raise GroupingError(f"failed to get worker index from pod {pod.namespace}/{pod.name}")
    own = _segment_of(index, size, segment)
    with failing_as(f"failed to get workerTemplate from {where}"):
        worker = mapping(top.body, *_TEMPLATE, "workerTemplate")
    topology = None if worker is None else segment_topology(top, pod, worker)
    # Without a leader among them: how many workers each segment has.
    counts = [0] * (_segment_of(size - 1, size, segment) + 1)
    for each in range(1, size):
        counts[_segment_of(each, size, segment)] += 1
    if not 0 <= own < len(counts):
        raise GroupingError(f"worker index {index} of pod {pod.namespace}/{pod.name} is not below size {size}")
    is_excluded = policy == "LeaderExcluded"
    if is_excluded and (size - 1) % segment:
        raise GroupingError(
            f"replicasSize {size} is not divisible by segmentSize {segment}. "
            "LeaderExcluded policy is only supported when replicasSize is divisible by segmentSize."
        )
    is_first = policy in {None, "LeaderWorker"}
    if is_first or (size - 1) % segment:
        counts[0] += 1
    segments = [
        SubGroupPlan(
            name=f"segment-{number}",
            min_member=count,
            topology=topology,
            pods=(pod.name,)
            if number == own and not (is_first and number == 0) and not (is_excluded and _is_leader(pod))
            else (),
        )
        for number, count in enumerate(counts)
    ]
    if is_excluded:
        leader = SubGroupPlan(name=_LEADER, min_member=1, pods=(pod.name,) if _is_leader(pod) else ())
        return [leader, *segments]
    if is_first:
        has_workers = own == 0 and not _is_leader(pod)
        return [*segments, *_leader_and_workers(pod, counts[0], parent="segment-0", has_workers=has_workers)]
    return segments


def _leader_and_workers(pod: Pod, size: int, *, parent: str | None, has_workers: bool) -> list[SubGroupPlan]:
    """Return the sub-groups of the leader and of the other members; `has_workers`: the pod is one of these."""
    leader = SubGroupPlan(name=_LEADER, min_member=1, parent=parent, pods=(pod.name,) if _is_leader(pod) else ())
    if size <= 1:
        return [leader]
    workers = SubGroupPlan(name=_WORKERS, min_member=size - 1, parent=parent, pods=(pod.name,) if has_workers else ())
    return [leader, workers]


def _segment_of(index: int, size: int, segment: int) -> int:
    """Return the segment of a member. The leader is an extra member of the first one if the others divide evenly."""
    if index == 0:
        return 0
    return (index - 1 if (size - 1) % segment == 0 else index) // segment


def _segment_size(top: Owner, size: int) -> int | None:
    """Return the size of a segment: of the sub-group policy, the LeaderWorkerSet or its template; None without one."""
    segment = integer(top.body, *_TEMPLATE, "subGroupPolicy", "subGroupSize")
    if segment is None and SEGMENT_SIZE in top.annotations:
        segment = _number(top.annotations[SEGMENT_SIZE], "annotation", top)
    if segment is None:
        try:
            said = text(top.body, *_TEMPLATE, "workerTemplate", "metadata", "annotations", SEGMENT_SIZE)
        except GroupingError:
            said = None
        if said is not None:
            segment = _number(said, "annotation of the workerTemplate", top)
    if segment is None:
        return None
    if segment <= 1:
        raise GroupingError(f"segmentSize {segment} is not valid. It must be greater than 1")
    if segment > size:
        raise GroupingError(f"segmentSize {segment} is greater than replicasSize {size}")
    return segment


def _number(said: str, where: str, top: Owner) -> int:
    value = go_integer(said)
    if value is None:
        raise GroupingError(f"invalid segment size annotation {said} in {where} of LWS {top.namespace}/{top.name}")
    return value
