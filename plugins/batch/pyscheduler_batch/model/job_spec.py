"""`JobSpec`: the settings of a job, read from its PodGroup, in one form for all batch systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_batch.model.tasks import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.api import RawQuantity
    from pyscheduler.podgroup.sub_groups import ByPolicy

__all__ = ["JobSpec", "SubGroupSpec"]


@attrs.frozen(kw_only=True)
class SubGroupSpec:
    """A part of a job with a minimum of its own.

    Pods of KAI name their sub-group by a label. In Volcano a sub-group is a policy: the pods that `selector` matches
    are grouped by the values of the labels `match_label_keys`, and each such group needs `min_member` pods.
    """

    name: str
    #: Name of the parent sub-group; "" at the top. KAI only.
    parent: str = ""
    #: The smallest number of pods: KAI's `minMember`, Volcano's `subGroupSize`. KAI ignores it for one with children.
    min_member: int = 1
    #: How many children must be satisfied (KAI; None means all), or how many groups of this policy (Volcano).
    min_sub_group: int | None = None
    #: KAI's `topologyConstraint`, Volcano's `networkTopology`, as in the object.
    topology: Mapping[str, object] = attrs.field(factory=dict, hash=False)
    #: Volcano's `labelSelector`, as in the object, and `matchLabelKeys`.
    selector: Mapping[str, object] = attrs.field(factory=dict, hash=False)
    match_label_keys: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class JobSpec:
    """The fields of a PodGroup, with the defaults of its dialect."""

    namespace: str
    name: str
    uid: str
    #: The name of the dialect's row in `podgroup`.
    dialect: str
    #: Seconds since 1970; 0 if the object does not say.
    created: float = 0.0
    #: Name of the queue; "" only in KAI, where a queue must be named.
    queue: str = ""
    #: How many members must be able to start together. KAI ignores it once there are sub-groups.
    min_member: int = 1
    priority_class_name: str = ""
    #: KAI's preemptibility, Volcano's annotation `volcano.sh/preemptable`; None: priority or policies decide.
    preemptible: bool | None = None
    sub_groups: tuple[SubGroupSpec, ...] = ()
    #: Names the sub-group of a pod if `sub_groups` are policies (Volcano).
    policies: ByPolicy | None = None
    #: How many sub-groups at the top must be satisfied (KAI); None means all.
    min_sub_group: int | None = None
    #: Minimum of members by role (Volcano's `minTaskMember`).
    min_task_member: Mapping[str, int] = attrs.field(default=NOTHING, hash=False)
    #: What all members together need at least, as quantities of the object.
    min_resources: Mapping[str, RawQuantity] = attrs.field(factory=dict, hash=False)
    #: The status as it was written last; KAI's `schedulingConditions` are a list of their own.
    phase: str = ""
    conditions: tuple[Mapping[str, object], ...] = attrs.field(default=(), hash=False)
    scheduling_conditions: tuple[Mapping[str, object], ...] = attrs.field(default=(), hash=False)
    #: Whether pods get the condition that they are unschedulable (KAI).
    mark_unschedulable: bool = True
    #: -1: try the job again and again; 1: skip it while its latest scheduling condition is for this node pool (KAI).
    scheduling_backoff: int = -1
    #: Seconds that a broken gang may stay; None: the default of the preset; below 0: for ever (KAI).
    staleness_grace: float | None = None
    #: Seconds after its creation, or its last eviction, in which the job triggers no eviction (KAI).
    preemption_delay: float | None = None
    #: Since when the gang is broken, and when it last started and lost pods to another job, by its annotations; seconds
    #: since 1970 (KAI).
    stale_since: float | None = None
    last_start: float | None = None
    last_eviction: float | None = None
    #: The minimums that the job and its sub-groups had since it started, by its annotation (KAI).
    reached: Mapping[str, int] = attrs.field(default=NOTHING, hash=False)
    #: Seconds after which the job must be enqueued (Volcano's sla annotation).
    sla_waiting_time: float | None = None
    #: KAI's `topologyConstraint`, Volcano's `networkTopology`, as in the object.
    topology: Mapping[str, object] = attrs.field(factory=dict, hash=False)
    #: Sentences for the user about values that do not count.
    warnings: tuple[str, ...] = ()
    #: A stable reason why the job cannot be scheduled as it is described, "" if it can. ": " and a message may follow.
    error: str = ""

    def warnings_with(self, priority_class: Callable[[str], object]) -> tuple[str, ...]:
        """Return the warnings, and one if `priority_class` returns None for the name of the priority class."""
        name = self.priority_class_name
        if not name or priority_class(name) is not None:
            return self.warnings
        return (*self.warnings, f'spec.priorityClassName: PriorityClass "{name}" does not exist; a default counts')
