"""The kinds of objects that describe queues.

They come from other projects' CRDs, which may have no validation. So `spec` and `status` are kept as they were decoded,
and the readers of each dialect check every value: a bad value makes that field unusable, and not the object.
Sources: the CRDs of KAI, Volcano and kube-batch.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pyscheduler.api import KubeObject, kind_of

__all__ = ["KAI_QUEUES", "KUBE_BATCH_QUEUES", "VOLCANO_QUEUES", "KaiQueue", "QueueObject", "VolcanoQueue"]


class QueueObject(KubeObject):
    """A Queue of any dialect; each served version has a type of its own."""

    kind: ClassVar[str] = "Queue"

    spec: Any = None
    status: Any = None


class KaiQueue(QueueObject):
    """Queue of KAI."""

    api_version: ClassVar[str] = "scheduling.run.ai/v2"


class VolcanoQueue(QueueObject):
    """Queue of Volcano."""

    api_version: ClassVar[str] = "scheduling.volcano.sh/v1beta1"


class IncubatorQueue(QueueObject):
    """Queue of kube-batch."""

    api_version: ClassVar[str] = "scheduling.incubator.k8s.io/v1alpha1"


class SigsDevQueue(QueueObject):
    """Queue of kube-batch's second version."""

    api_version: ClassVar[str] = "scheduling.sigs.dev/v1alpha2"


KAI_QUEUES: Final = kind_of(KaiQueue, "queues", namespaced=False)
VOLCANO_QUEUES: Final = kind_of(VolcanoQueue, "queues", namespaced=False)
KUBE_BATCH_QUEUES: Final = (
    kind_of(IncubatorQueue, "queues", namespaced=False),
    kind_of(SigsDevQueue, "queues", namespaced=False),
)
