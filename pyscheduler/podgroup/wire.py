"""The kinds of objects that describe groups, with the fields that the scheduler reads.

Most fields are declared as `Any`, so that a mistake in one field does not make the whole object unusable.
Sources: the CRDs of scheduler-plugins, Koordinator, kube-batch, Volcano and KAI; Kubernetes 1.36,
`staging/src/k8s.io/api/scheduling/v1alpha2/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyscheduler.api import KubeObject, PodCondition, Wire, kind_of

__all__ = [
    "IN_TREE_PODGROUPS",
    "KAI_PODGROUPS",
    "KOORDINATOR_PODGROUPS",
    "KUBE_BATCH_PODGROUPS",
    "MING_PODGROUPS",
    "SIGS_PODGROUPS",
    "VOLCANO_PODGROUPS",
    "GroupObject",
    "GroupStatus",
    "PodGroupSpec",
    "SchedulingPolicy",
]


class PodGroupSpec(Wire):
    """The spec of a PodGroup in all dialects but Kubernetes' own, with all names of its fields."""

    min_member: Any = None
    #: An older name, of kube-batch.
    min_members: Any = None
    min_resources: Any = None
    #: kube-batch's name for `min_resources`.
    total_resources: Any = None
    schedule_timeout_seconds: Any = None
    # The fields below are read by batch scheduling only.
    queue: Any = None
    priority_class_name: Any = None
    #: KAI.
    preemptibility: Any = None
    sub_groups: Any = None
    min_sub_group: Any = None
    topology_constraint: Any = None
    mark_unschedulable: Any = None
    scheduling_backoff: Any = None
    staleness_grace_period: Any = None
    preemption_delay: Any = None
    #: Volcano.
    min_task_member: Any = None
    network_topology: Any = None
    sub_group_policy: Any = None


class GroupStatus(Wire):
    """The status of a group, as it was written last."""

    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    admitted: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str | None = None
    #: As they were written; batch scheduling reads them.
    conditions: Any = None
    #: KAI.
    scheduling_conditions: Any = None
    resources_status: Any = None
    pending: int = 0


class GroupObject(KubeObject):
    """A PodGroup of any dialect; each served version has a type of its own."""

    kind: ClassVar[str] = "PodGroup"

    spec: PodGroupSpec = PodGroupSpec()
    status: GroupStatus = GroupStatus()


class SigsPodGroup(GroupObject):
    """PodGroup of scheduler-plugins."""

    api_version: ClassVar[str] = "scheduling.x-k8s.io/v1alpha1"


class MingPodGroup(GroupObject):
    """PodGroup of podgroup-scheduler-framework."""

    api_version: ClassVar[str] = "scheduling.ming.io/v1"


class KoordinatorPodGroup(GroupObject):
    """PodGroup of Koordinator, and of early versions of scheduler-plugins."""

    api_version: ClassVar[str] = "scheduling.sigs.k8s.io/v1alpha1"


class IncubatorPodGroup(GroupObject):
    """PodGroup of kube-batch, as in its CRD."""

    api_version: ClassVar[str] = "scheduling.incubator.k8s.io/v1alpha1"


class SchedulingIncubatorPodGroup(GroupObject):
    """PodGroup of kube-batch, as in its design document."""

    api_version: ClassVar[str] = "incubator.scheduling.k8s.io/v1alpha1"


class SigsDevPodGroup(GroupObject):
    """PodGroup of kube-batch's second version."""

    api_version: ClassVar[str] = "scheduling.sigs.dev/v1alpha2"


class VolcanoPodGroup(GroupObject):
    """PodGroup of Volcano."""

    api_version: ClassVar[str] = "scheduling.volcano.sh/v1beta1"


class KaiPodGroup(GroupObject):
    """PodGroup of KAI."""

    api_version: ClassVar[str] = "scheduling.run.ai/v2alpha2"


class GangPolicy(Wire):
    """All members or none: the minimum."""

    min_count: Any = None


class SchedulingPolicy(Wire):
    """The members of a group are scheduled as a gang, or one by one (`basic`)."""

    basic: Mapping[str, Any] | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Wire):
    """All members run on nodes with one value of the label `key`."""

    key: str = ""


class SchedulingConstraints(Wire):
    """The constraint on the nodes of a group's members; Kubernetes allows one topology constraint."""

    topology: tuple[TopologyConstraint, ...] = ()


class InTreePodGroupSpec(Wire):
    """The spec of Kubernetes' own PodGroup."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    #: What is evicted together: "Pod" or "PodGroup"; None means "Pod".
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: int | None = None


class InTreePodGroupStatus(Wire):
    """The status of Kubernetes' own PodGroup; its conditions have the fields of a pod's conditions."""

    conditions: tuple[PodCondition, ...] = ()


class InTreePodGroup(KubeObject):
    """PodGroup of Kubernetes 1.36."""

    api_version: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    kind: ClassVar[str] = "PodGroup"

    spec: InTreePodGroupSpec = InTreePodGroupSpec()
    status: InTreePodGroupStatus = InTreePodGroupStatus()


SIGS_PODGROUPS: Final = kind_of(SigsPodGroup, "podgroups")
MING_PODGROUPS: Final = kind_of(MingPodGroup, "podgroups")
KOORDINATOR_PODGROUPS: Final = kind_of(KoordinatorPodGroup, "podgroups")
KUBE_BATCH_PODGROUPS: Final = (
    kind_of(IncubatorPodGroup, "podgroups"),
    kind_of(SchedulingIncubatorPodGroup, "podgroups"),
    kind_of(SigsDevPodGroup, "podgroups"),
)
VOLCANO_PODGROUPS: Final = kind_of(VolcanoPodGroup, "podgroups")
KAI_PODGROUPS: Final = kind_of(KaiPodGroup, "podgroups")
IN_TREE_PODGROUPS: Final = kind_of(InTreePodGroup, "podgroups")
