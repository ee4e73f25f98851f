"""A dialect of queues; docs/reference/batch.md shows it."""

from __future__ import annotations

import math
from typing import ClassVar

from pyscheduler.api import KubeObject, Wire, kind_of
from pyscheduler_batch.contract import QueueDialect, QueueSpec


class FairQueueSpec(Wire):
    """What a tenant gets."""

    gpus: int = 0


class FairQueue(KubeObject):
    """A queue with a number of GPUs."""

    api_version: ClassVar[str] = "fair.example/v1"
    kind: ClassVar[str] = "FairQueue"
    spec: FairQueueSpec = FairQueueSpec()


FAIR_QUEUES = kind_of(FairQueue, "fairqueues", namespaced=False)


def read(queue: FairQueue) -> QueueSpec:
    """Return the quota of GPUs; nothing else is limited."""
    free = {"cpu": math.inf, "memory": math.inf, "nvidia.com/gpu": math.inf}
    gpus = {"nvidia.com/gpu": float(queue.spec.gpus)}
    return QueueSpec(name=queue.name, uid=queue.uid, dialect="fair", quota={**free, **gpus}, limit=free)


ROW = QueueDialect(name="fair", system="Fair", kinds=(FAIR_QUEUES,), read=read)
