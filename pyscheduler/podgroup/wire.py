"""The objects that describe groups, as far as scheduling reads them, and where the API server serves them.

They come from other projects' CRDs, whose validation may be absent: what people fill in is declared as `Any`, so that a
word where a number belongs costs that field and not the object. `declarations` reads it.
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
    """What the PodGroups of all dialects but Kubernetes' own say, in all their spellings."""

    min_member: Any = None
    #: An old spelling of kube-batch.
    min_members: Any = None
    min_resources: Any = None
    #: kube-batch's word for `min_resources`.
    total_resources: Any = None
    schedule_timeout_seconds: Any = None


class GroupStatus(Wire):
    """What was last written about a group, so that only changes are written."""

    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    admitted: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str | None = None


class GroupObject(KubeObject):
    """A PodGroup of whatever dialect; each version that is served has a type of its own."""

    spec: PodGroupSpec = PodGroupSpec()
    status: GroupStatus = GroupStatus()


class SigsPodGroup(GroupObject):
    """PodGroup of scheduler-plugins."""

    api_version: ClassVar[str] = "scheduling.x-k8s.io/v1alpha1"
    kind: ClassVar[str] = "PodGroup"


class MingPodGroup(GroupObject):
    """PodGroup of podgroup-scheduler-framework."""

    api_version: ClassVar[str] = "scheduling.ming.io/v1"
    kind: ClassVar[str] = "PodGroup"


class KoordinatorPodGroup(GroupObject):
    """PodGroup of Koordinator, and of scheduler-plugins in its early days."""

    api_version: ClassVar[str] = "scheduling.sigs.k8s.io/v1alpha1"
    kind: ClassVar[str] = "PodGroup"


class IncubatorPodGroup(GroupObject):
    """PodGroup of kube-batch, as its CRD has it."""

    api_version: ClassVar[str] = "scheduling.incubator.k8s.io/v1alpha1"
    kind: ClassVar[str] = "PodGroup"


class SchedulingIncubatorPodGroup(GroupObject):
    """PodGroup of kube-batch, as its design has it."""

    api_version: ClassVar[str] = "incubator.scheduling.k8s.io/v1alpha1"
    kind: ClassVar[str] = "PodGroup"


class SigsDevPodGroup(GroupObject):
    """PodGroup of kube-batch's second version."""

    api_version: ClassVar[str] = "scheduling.sigs.dev/v1alpha2"
    kind: ClassVar[str] = "PodGroup"


class VolcanoPodGroup(GroupObject):
    """PodGroup of Volcano."""

    api_version: ClassVar[str] = "scheduling.volcano.sh/v1beta1"
    kind: ClassVar[str] = "PodGroup"


class KaiPodGroup(GroupObject):
    """PodGroup of KAI."""

    api_version: ClassVar[str] = "scheduling.run.ai/v2alpha2"
    kind: ClassVar[str] = "PodGroup"


class GangPolicy(Wire):
    """All members or none, up to a number."""

    min_count: Any = None


class SchedulingPolicy(Wire):
    """How the members of a group are scheduled: as a gang, or (`basic`) one by one."""

    basic: Mapping[str, Any] | None = None
    gang: GangPolicy | None = None


class InTreePodGroupSpec(Wire):
    """What Kubernetes' own PodGroup says."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    priority_class_name: str = ""
    priority: int | None = None


class InTreePodGroupStatus(Wire):
    """What became of the group; its conditions have the shape of a pod's."""

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
