"""kube-batch as a batch system: Volcano's ancestor, with the same objects and rules of its own for conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler.api import Node
from pyscheduler_batch.kube_batch.reports import KubeBatchReports
from pyscheduler_batch.kube_batch.session import KubeBatchSession
from pyscheduler_batch.system import PRESETS, built_in_rows
from pyscheduler_batch.volcano.system import Volcano

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler_batch.contract import Session
    from pyscheduler_batch.status.reports import Reports

__all__ = ["KubeBatch"]

_ROOM: Final = "pyscheduler_batch.kube_batch"
_SHARED: Final = "pyscheduler_batch.volcano"


class KubeBatch(Volcano):
    """Volcano without enqueueing, quotas and hypernodes; gangs keep what they were promised."""

    preset = PRESETS["kube-batch"]
    actions: ClassVar[Mapping[str, str]] = {
        "allocate": f"{_ROOM}.allocate:Allocate",
        "backfill": f"{_ROOM}.backfill:Backfill",
        "preempt": f"{_ROOM}.preempt:Preempt",
        "reclaim": f"{_ROOM}.reclaim:Reclaim",
    }
    policies: ClassVar[Mapping[str, str]] = {
        "conformance": f"{_SHARED}.conformance:Conformance",
        "drf": f"{_SHARED}.drf:Drf",
        "gang": f"{_ROOM}.gang:Gang",
        "nodeorder": f"{_SHARED}.nodeorder:NodeOrder",
        "predicates": f"{_ROOM}.predicates:Predicates",
        "priority": f"{_ROOM}.priority:Priority",
        "proportion": f"{_ROOM}.proportion:Proportion",
    }
    session: ClassVar[str] = f"{_ROOM}.session:KubeBatchSession"
    jobs, queues = built_in_rows("kube-batch")
    read_by: ClassVar[Mapping[str, ResourceKind]] = {}
    reports: ClassVar[Reports] = KubeBatchReports()
    annotated: ClassVar[Sequence[str]] = ("podgroups",)

    keeps_parts = True
    counts_empty_groups = False

    def prepare(self, session: Session) -> None:
        """Give a session what one of Volcano has, and the conditions of nodes."""
        super().prepare(session)
        assert isinstance(session, KubeBatchSession), "the class that `session` names"
        session.nodes_with = self._nodes_with

    def _nodes_with(self, condition: str) -> Iterable[str]:
        return [
            node.name
            for node in self.handle.lister(Node)
            if any(each.type == condition and each.status == "True" for each in node.status.conditions)
        ]
