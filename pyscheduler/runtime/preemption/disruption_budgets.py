"""Divide victims into those whose eviction would violate a disruption budget, and the others.

Source: kube-scheduler 1.36, `filterPodsWithPDBViolation` and, for groups of victims, `filterVictimsWithPDBViolation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.api import SelectorError, compile_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from pyscheduler.api import CompiledSelector, Pod, PodDisruptionBudget
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["Budgets"]


@attrs.define
class _Budget:
    key: str
    selector: CompiledSelector
    allowed: int
    #: Names of pods that the API server has counted as gone already.
    disrupted: Collection[str]


class Budgets:
    """The disruption budgets of a cluster at one moment; `group_budget` tells of another one that protects a pod."""

    def __init__(
        self,
        budgets: Iterable[PodDisruptionBudget],
        *,
        group_budget: Callable[[Pod], tuple[Hashable, int] | None] | None = None,
    ) -> None:
        self._group_budget = group_budget
        self._by_namespace: dict[str, list[_Budget]] = {}
        for budget in budgets:
            try:
                selector = compile_label_selector(budget.spec.selector)
            except SelectorError:
                continue  # it selects nothing
            if selector.is_empty:
                continue  # for a scheduler, such a one selects nothing either
            status = budget.status
            self._by_namespace.setdefault(budget.namespace, []).append(
                _Budget(budget.key, selector, status.disruptions_allowed, status.disrupted_pods)
            )

    @property
    def is_empty(self) -> bool:
        """Return whether nothing protects any pod."""
        return not self._by_namespace and self._group_budget is None

    @property
    def is_fixed(self) -> bool:
        """Return whether the protected pods follow from the given pods alone: there are no budgets of groups."""
        return self._group_budget is None

    def split(self, victims: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Return those whose eviction would violate a budget, and the others; each in the order given.

        Budgets are used up in that order.
        """
        if self.is_empty:
            return [], list(victims)
        left: dict[Hashable, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for info in victims:
            pod = info.pod
            labels = pod.metadata.labels
            violates = False
            for budget in self._by_namespace.get(pod.namespace, ()) if labels else ():
                if not budget.selector.matches(labels) or pod.name in budget.disrupted:
                    continue
                remaining = left[id(budget)] = left.get(id(budget), budget.allowed) - 1
                violates = violates or remaining < 0
            group = self._group_budget(pod) if self._group_budget is not None else None
            if group is not None:
                whose, allowed = group
                remaining = left[whose] = left.get(whose, allowed) - 1
                violates = violates or remaining < 0
            (violating if violates else others).append(info)
        return violating, others

    def violates(self, pods: Iterable[Pod], left: dict[Hashable, int]) -> bool:
        """Return True if evicting these pods together violates a budget, and use up the budgets that match them.

        `left`: the disruptions that remain, by budget; shared by the units of one search. As in kube-scheduler, nothing
        more is counted after the first violation, and only the budgets of Kubernetes count.
        """
        for pod in pods:
            labels = pod.metadata.labels
            for budget in self._by_namespace.get(pod.namespace, ()) if labels else ():
                if not budget.selector.matches(labels) or pod.name in budget.disrupted:
                    continue
                remaining = left[id(budget)] = left.get(id(budget), budget.allowed) - 1
                if remaining < 0:
                    return True
        return False

    def violated_by(self, victims: Iterable[PodInfo]) -> list[str]:
        """Return the keys of the budgets that evicting these pods violates.

        A search counts all possible victims, and then spares some of them. So the victims that remain may violate no
        budget by themselves; then the keys of all budgets that protect one of them are returned.
        """
        counts: dict[str, int] = {}
        for info in victims:
            pod = info.pod
            for budget in self._by_namespace.get(pod.namespace, ()) if pod.labels else ():
                if budget.selector.matches(pod.labels) and pod.name not in budget.disrupted:
                    counts[budget.key] = counts.get(budget.key, budget.allowed) - 1
        return [key for key, left in counts.items() if left < 0] or [*counts]
