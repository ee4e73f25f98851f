"""The result of a reader of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_lab.traces.job import Job

__all__ = ["SHAPES", "Found", "Shape"]

Shape: TypeAlias = Literal["worker", "nodepack"]

SHAPES: tuple[Shape, ...] = ("nodepack", "worker")
"""How a job is divided into workers: into as few as nodes allow, or as small as the trace allows."""


@attrs.frozen(kw_only=True)
class Found:
    """The jobs of a file, and what a user should know about the reading."""

    jobs: Sequence[Job]
    #: The virtual clusters of the file share one cluster, such as the namespaces of a dump.
    is_one_cluster: bool = False
    #: How many jobs or pods were left out or changed, by reason.
    notes: Mapping[str, int] = attrs.field(factory=dict)
