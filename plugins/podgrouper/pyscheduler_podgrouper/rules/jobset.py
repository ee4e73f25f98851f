"""JobSet: a pod group for each replicated job, or one for the whole set if its startup order is `AnyOrder`.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/plugins/jobset`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler_podgrouper.contract import GroupPlan, Owner
from pyscheduler_podgrouper.fields import MAX_INT32, GroupingError, failing_as, integer, items, text
from pyscheduler_podgrouper.generic import generic

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import Lookup

__all__ = ["job_set"]

_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
_IN_ORDER: Final = "InOrder"


def job_set(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return one group for the whole JobSet, or one for each replicated job if these start in order.

    One gang over jobs that start in order would never start: the later jobs have no pods before the first ones run.
    """
    plan = generic(top, (), pod, lookup)
    if not top.name or not top.uid:
        raise GroupingError(f"jobset top owner {top.namespace}/{top.name} missing name or UID")
    own = pod.labels.get(_REPLICATED_JOB, "")
    if not own:
        raise GroupingError(f'pod {pod.namespace}/{pod.name} missing required label "{_REPLICATED_JOB}"')
    where = f"from JobSet {top.namespace}/{top.name}"
    with failing_as(f"failed to read spec.startupPolicy.startupPolicyOrder {where}"):
        order = text(top.body, "spec", "startupPolicy", "startupPolicyOrder")
    with failing_as(f"failed to read spec.replicatedJobs {where}"):
        jobs = [each for each in items(top.body, "spec", "replicatedJobs") or () if isinstance(each, Mapping)]
    if order in {None, _IN_ORDER}:
        found = next((each for each in jobs if each.get("name") == own), None)
        minimum = 1 if found is None else _count(found, top)
        return attrs.evolve(plan, name=f"{plan.name}-{own}", min_member=minimum)
    total = sum(_count(each, top) for each in jobs if isinstance(each.get("name"), str) and each["name"])
    return attrs.evolve(plan, min_member=_int32(total, "total minAvailable", top.namespace, top.name) or 1)


def _count(job: Mapping[str, Any], top: Owner) -> int:
    """Return how many pods of a replicated job run at a time."""
    name = f"{top.name} replicatedJob {job.get('name')}"

    def read(*path: str) -> int:
        with failing_as(f"failed to read {'.'.join(path)} from JobSet {top.namespace}/{name}"):
            return integer(job, *path) or 0

    replicas, parallelism = max(read("replicas"), 1), max(read("template", "spec", "parallelism"), 1)
    completions = read("template", "spec", "completions")
    if 0 < completions < parallelism:
        parallelism = completions
    return _int32(replicas * parallelism, "minAvailable", top.namespace, name)


def _int32(value: int, what: str, namespace: str, name: str) -> int:
    if value > MAX_INT32:
        raise GroupingError(f"{what} too large ({value}) for JobSet {namespace}/{name}: exceeds int32 max value")
    return value
