"""Count the pods of the cluster by their requests and by the GPU models that they may run on.

The plugin `FGD` takes typical tasks (the most frequent kinds of pods) from these counts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from pyscheduler.api import Node, Pod
from pyscheduler_batch.gpu_sharing.books import groups_of
from pyscheduler_batch.gpu_sharing.device_shares import smallest_gpu_memory
from pyscheduler_fgd.policy import Demand, demand_of
from pyscheduler_fgd.typical_tasks import MOST_GPUS, WHOLE, TypicalTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.framework import Handle

__all__ = ["ObservedTasks"]

#: The counts are taken again once one in this many pods has come or gone.
_STEP: Final = 20

#: The request of a pod, and the models that it may run on.
_Kind: TypeAlias = tuple[Demand, tuple[str, ...]]


class ObservedTasks:
    """Counts the kinds of the pods of the cluster."""

    def __init__(self, handle: Handle, model_label: str) -> None:
        self._label = model_label
        self._forget = handle.forget_answers
        self._nodes = handle.lister(Node)
        self._counts: Counter[_Kind] = Counter()
        #: Pods that came or went since the last `take`.
        self._news = 0
        handle.lister(Pod).add_event_handler(
            on_add=lambda pod: self._count(pod, 1),
            on_update=self._recount,
            on_delete=lambda pod: self._count(pod, -1),
        )

    def have_changed(self) -> bool:
        """Return whether the pods differ much from those of the last `take`."""
        return self._news > 0 and self._news * _STEP >= self._counts.total()

    def take(self) -> Sequence[TypicalTask]:
        """Return the kinds with their counts."""
        self._news = 0
        memory = smallest_gpu_memory(self._nodes)
        return [_task(demand, models, memory, count) for (demand, models), count in self._counts.items()]

    def _kind(self, pod: Pod) -> _Kind | None:
        """Return the kind of a pod; None for a pod that only reserves a shared GPU, or shares several."""
        demand = demand_of(pod)
        is_counted = demand.share.devices == 1 if demand.share is not None else not groups_of(pod)
        return (demand, _models_of(pod, self._label)) if is_counted else None

    def _count(self, pod: Pod, number: int) -> None:
        kind = self._kind(pod)
        if kind is None:
            return
        had_changed = self.have_changed()
        self._counts[kind] += number
        self._news += 1
        if not self._counts[kind]:
            del self._counts[kind]
        if self.have_changed() and not had_changed:
            self._forget([node.name for node in self._nodes])

    def _recount(self, old: Pod, new: Pod) -> None:
        """Count a pod with its new requests, or with the label that its device has given it."""
        if self._kind(old) != self._kind(new):
            self._count(old, -1)
            self._count(new, 1)


def _task(demand: Demand, models: tuple[str, ...], memory: int, count: int) -> TypicalTask:
    if demand.share is None:
        gpus = min(demand.whole, MOST_GPUS)
        return TypicalTask(cpu_milli=demand.cpu, gpus=gpus, models=models, count=count)
    part = min(max(demand.share.amount(memory) * WHOLE // memory, 1), WHOLE)
    return TypicalTask(cpu_milli=demand.cpu, gpus=1, gpu_milli=part, models=models, count=count)


def _models_of(pod: Pod, label: str) -> tuple[str, ...]:
    """Return the GPU models that a pod may run on, in order; () for any."""
    if label in pod.spec.node_selector:
        return (pod.spec.node_selector[label],)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    found: set[str] = set()
    for term in required.node_selector_terms if required is not None else ():
        named = [each.values for each in term.match_expressions if (each.key, each.operator) == (label, "In")]
        if not named:
            return ()
        found.update(named[0])
    return tuple(sorted(found))
