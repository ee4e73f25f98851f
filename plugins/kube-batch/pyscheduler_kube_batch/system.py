"""Make kube-batch (Volcano's ancestor) one of the batch systems whose rules the plugin `Batch` can follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler.api import Node
from pyscheduler_kube_batch.objects import JOBS, QUEUES
from pyscheduler_kube_batch.preset import KUBE_BATCH
from pyscheduler_kube_batch.reports import KubeBatchReports
from pyscheduler_kube_batch.session import KubeBatchSession
from pyscheduler_volcano.node_order import with_node_order
from pyscheduler_volcano.system import Volcano

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler_batch.batch_args import BatchArgs
    from pyscheduler_batch.contract import Session
    from pyscheduler_batch.status.reports import Reports

__all__ = ["KubeBatch"]

_ROOM: Final = "pyscheduler_kube_batch"
_SHARED: Final = "pyscheduler_volcano"
#: The weights of `nodeorder` by default.
_WEIGHTS: Final = {
    "leastrequested.weight": 1,
    "balancedresource.weight": 1,
    "nodeaffinity.weight": 1,
    "podaffinity.weight": 1,
}


class KubeBatch(Volcano):
    """Volcano without enqueueing, quotas and hypernodes; gangs keep what they were promised."""

    preset = KUBE_BATCH
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
    jobs, queues = JOBS, QUEUES
    read_by: ClassVar[Mapping[str, ResourceKind]] = {}
    reports: ClassVar[Reports] = KubeBatchReports()
    annotated: ClassVar[Sequence[str]] = ("podgroups",)

    keeps_parts = True
    counts_empty_groups = False

    @classmethod
    def profile(cls, profile: Mapping[str, object], args: BatchArgs, gates: Mapping[str, bool]) -> Mapping[str, object]:
        """Return the profile with the weights of `nodeorder`; what that did not have in kube-batch weighs nothing."""
        return with_node_order(profile, args, _WEIGHTS)

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
