"""The kinds of kube-batch's queues, in two API groups."""

from __future__ import annotations

from typing import ClassVar, Final

from pyscheduler.api import kind_of
from pyscheduler_batch.dialects import JobDialect, QueueDialect
from pyscheduler_batch.model.queue_object import QueueObject
from pyscheduler_volcano.objects import DEFAULT_QUEUE, kube_batch_job, kube_batch_queue

__all__ = ["JOBS", "KUBE_BATCH_QUEUES", "QUEUES", "IncubatorQueue", "SigsDevQueue"]


class IncubatorQueue(QueueObject):
    """Queue of kube-batch."""

    api_version: ClassVar[str] = "scheduling.incubator.k8s.io/v1alpha1"


class SigsDevQueue(QueueObject):
    """Queue of kube-batch's second version."""

    api_version: ClassVar[str] = "scheduling.sigs.dev/v1alpha2"


KUBE_BATCH_QUEUES: Final = (
    kind_of(IncubatorQueue, "queues", namespaced=False),
    kind_of(SigsDevQueue, "queues", namespaced=False),
)

QUEUES: Final = QueueDialect(name="kube-batch", system="kube-batch", kinds=KUBE_BATCH_QUEUES, read=kube_batch_queue)
"""The dialect of the queues of kube-batch."""

JOBS: Final = JobDialect(name="kube-batch", default_queue=DEFAULT_QUEUE, read=kube_batch_job)
"""The dialect of the groups of kube-batch."""
