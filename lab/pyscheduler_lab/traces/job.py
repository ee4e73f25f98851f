"""One job of a trace: when it arrives, how long it runs, and what its workers request."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["LONGEST_SECONDS", "MOST_GPUS", "MOST_WORKERS", "WHOLE_GPU", "Job", "gpus_of"]

MOST_WORKERS: Final = 100_000
"""More workers than any cluster has room for; a replay of more would use up the memory."""
MOST_GPUS: Final = 1000
"""More GPUs than any node has."""
LONGEST_SECONDS: Final = 3_155_760_000
"""A hundred years; a replay of more would not end."""
WHOLE_GPU: Final = 1000
"""Thousandths of a GPU that is not shared."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")


def gpus_of(milli: int) -> float:
    """Return thousandths of a GPU as GPUs; whole ones as an integer."""
    return milli // WHOLE_GPU if milli % WHOLE_GPU == 0 else milli / WHOLE_GPU


@attrs.frozen(kw_only=True)
class Job:
    """One job. Arrival and duration in seconds, arrival since the beginning of the trace; requests of one worker.

    The duration `math.inf` means that the job runs until the replay ends.
    """

    name: str
    arrival: float
    duration: float
    workers: int = 1
    #: The job starts as soon as this many workers are bound; by default all of them.
    min_workers: int = attrs.field(default=attrs.Factory(lambda job: job.workers, takes_self=True))
    cpu_milli: int = 0
    memory_mib: int = 0
    #: GPUs of a worker.
    gpus: int = 0
    #: Thousandths that a worker gets of each of its GPUs. Below 1000, other pods share these GPUs.
    gpu_milli: int = WHOLE_GPU
    #: The GPU models that a worker may have; empty for any.
    gpu_models: tuple[str, ...] = ()
    #: The virtual cluster that the job belongs to; "" if the trace has none.
    team: str = ""
    priority: int = 0
    #: The column `class`, by which results can be grouped.
    job_class: str = ""
    node_selector: Mapping[str, str] = attrs.field(factory=dict)
    #: The other columns of the trace, which are passed on to the results.
    columns: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def worker_gpu_milli(self) -> int:
        """Return the GPUs of one worker in thousandths."""
        return self.gpus * self.gpu_milli

    @property
    def gpu_count(self) -> float:
        """Return the GPUs of all workers, parts included."""
        return gpus_of(self.workers * self.worker_gpu_milli)

    @property
    def is_gang(self) -> bool:
        """Return True if the job has several workers, which must run at the same time."""
        return self.workers > 1

    @property
    def is_endless(self) -> bool:
        """Return True if the job runs until the replay ends."""
        return self.duration == math.inf

    @property
    def shares_gpus(self) -> bool:
        """Return True if a worker requests parts of GPUs."""
        return self.gpus > 0 and self.gpu_milli < WHOLE_GPU

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the job; each text begins with the name of a field."""
        if not _NAME.fullmatch(self.name):
            yield f"name {self.name!r} cannot be the name of an object: at most 52 of a-z, 0-9 and -"
        if not 0 <= self.arrival <= LONGEST_SECONDS:
            yield f"arrival is {self.arrival}; it must be from 0 to {LONGEST_SECONDS}"
        if not 0 <= self.duration <= LONGEST_SECONDS and not self.is_endless:
            yield f"duration is {self.duration}; it must be from 0 to {LONGEST_SECONDS}, or inf"
        if not 1 <= self.workers <= MOST_WORKERS:
            yield f"workers is {self.workers}; it must be from 1 to {MOST_WORKERS}"
        if not 1 <= self.min_workers <= max(self.workers, 1):
            yield f"min_workers is {self.min_workers}; it must be from 1 to workers ({self.workers})"
        for field in ("cpu_milli", "memory_mib"):
            if getattr(self, field) < 0:
                yield f"{field} is {getattr(self, field)}; it must be 0 or more"
        if not 0 <= self.gpus <= MOST_GPUS:
            yield f"gpus is {self.gpus}; it must be from 0 to {MOST_GPUS}"
        if not 1 <= self.gpu_milli <= WHOLE_GPU:
            yield f"gpu_milli is {self.gpu_milli}; it must be from 1 to {WHOLE_GPU}"
        elif self.gpu_milli < WHOLE_GPU and not self.gpus:
            remedy = "a part of a GPU is 1 GPU with gpu_milli below 1000"
            yield f"gpu_milli is {self.gpu_milli}, but a worker has 0 GPUs; {remedy}"
