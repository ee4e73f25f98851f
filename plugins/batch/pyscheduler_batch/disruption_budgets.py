"""Consider PodDisruptionBudgets when the plugin `Batch` chooses victims.

By default (`disruptionBudgets: prefer`), an eviction may violate a budget.

Differs from KAI and kube-batch, which read no budgets. Source: `filterPodsWithPDBViolation` of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyscheduler.api import SelectorError, compile_label_selector
from pyscheduler_batch.contract import Policy, Refusal
from pyscheduler_batch.model.tasks import TaskState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import CompiledSelector, PodDisruptionBudget
    from pyscheduler_batch.contract import Claim, Tasks
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.model.tasks import Job, Task

__all__ = [
    "DisruptionBudgets",
    "RespectedBudgets",
    "budgets_of",
    "spared_of",
    "sparing_first",
    "within_budgets",
]

_SYSTEM = "kube-system"
_ON_NODE = frozenset({TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING})


class DisruptionBudgets(Policy):
    """The budgets of one pass. It listens to moves: also the evictions of an open statement use budgets up."""

    name: ClassVar[str] = "disruptionbudgets"

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        super().__init__()
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        #: By uid of a budget, how many more pods may be evicted.
        self._left: dict[str, int] = {}
        for each in budgets:
            if each.namespace == _SYSTEM:
                continue  # its pods are never evicted
            self._by_namespace.setdefault(each.namespace, []).append(each)
            self._left[each.uid] = each.status.disruptions_allowed
        #: The rows of the tasks that `protected` was asked about and that budgets select, with the uids of these.
        self._selected: list[tuple[int, list[str]]] | None = None
        self._selectors: dict[str, CompiledSelector | None] = {}

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:
        """Count a task that leaves its node, or whose eviction is undone."""
        change = (new in _ON_NODE) - (old in _ON_NODE)
        if change and task.pod is not None and task.pod.node_name:
            for uid in self._of(task):
                self._left[uid] += change

    def violating(self, tasks: Iterable[Task]) -> list[bool]:
        """Return for each task whether its eviction violates a budget, if all tasks before it are evicted, too."""
        used: Counter[str] = Counter()
        found: list[bool] = []
        for task in tasks:
            own = self._of(task) if task.state in _ON_NODE else []
            used.update(own)
            found.append(any(used[uid] > self._left[uid] for uid in own))
        return found

    def protected(self, tasks: Sequence[Task]) -> NDArray[np.bool_]:
        """Return bool[n]: the tasks whose eviction alone violates a budget. `tasks`: the same in each call."""
        if self._selected is None:
            self._selected = [(row, own) for row, task in enumerate(tasks) if (own := self._of(task))]
        mask = np.zeros(len(tasks), dtype=np.bool_)
        for row, own in self._selected:
            mask[row] = any(self._left[uid] <= 0 for uid in own)
        return mask

    def concern(self, jobs: Iterable[Job]) -> bool:
        """Return whether some job is in a namespace with budgets."""
        return any(job.key.partition("/")[0] in self._by_namespace for job in jobs)

    def _of(self, task: Task) -> list[str]:
        """Return the uids of the budgets that the eviction of a task would use up."""
        pod = task.pod
        if pod is None or not pod.labels or pod.namespace not in self._by_namespace:
            return []
        return [
            each.uid
            for each in self._by_namespace[pod.namespace]
            if pod.name not in each.status.disrupted_pods
            and (selector := self._selector(each)) is not None
            and selector.matches(pod.labels)
        ]

    def _selector(self, budget: PodDisruptionBudget) -> CompiledSelector | None:
        """Return the selector of a budget; None if it selects nothing: an empty one does not, either."""
        if budget.uid not in self._selectors:
            try:
                selector = compile_label_selector(budget.spec.selector)
            except SelectorError:
                self._selectors[budget.uid] = None
            else:
                self._selectors[budget.uid] = None if selector.is_empty else selector
        return self._selectors[budget.uid]


class RespectedBudgets(DisruptionBudgets):
    """Budgets that no eviction may violate."""

    def may_evict(self, claim: Claim, tasks: Tasks, action: str) -> NDArray[np.bool_]:
        """Return bool[n]: the tasks that may be evicted, the first ones of each budget."""
        return ~np.array(self.violating(tasks.tasks), dtype=np.bool_)

    def validate(self, claim: Claim, victims: Sequence[Task], action: str) -> Refusal | None:
        """Refuse a plan whose evictions, which are counted already, together violate a budget."""
        for task in victims:
            if any(self._left[uid] < 0 for uid in self._of(task)):
                return Refusal("DisruptionBudget", f"a disruption budget protects {task.key}")
        return None


def spared_of(session: Session, victims: Iterable[Task]) -> frozenset[str]:
    """Return the uids of the tasks whose eviction alone violates a budget: of equal tasks, the others are evicted."""
    budgets = budgets_of(session)
    if budgets is None:
        return frozenset()
    return frozenset(task.uid for task in victims if any(budgets.violating([task])))


def sparing_first(
    session: Session,
    residents: Sequence[Task],
    rows: NDArray[np.int64],
    candidates: NDArray[np.bool_],
    enough: Callable[[NDArray[np.bool_]], NDArray[np.bool_]],
) -> NDArray[np.int64]:
    """Return nodes in order, first those where evictions that violate no budget make room.

    `candidates`: bool[n], the possible victims among `residents`. `enough` returns bool[N]: the nodes where some
    candidates make room.
    """
    budgets = budgets_of(session)
    if budgets is None:
        return rows
    unprotected = candidates & ~budgets.protected(residents)
    if np.array_equal(unprotected, candidates):
        return rows
    return rows[np.argsort(~enough(unprotected)[rows], kind="stable")]


def within_budgets(session: Session, victims: NDArray[np.bool_], tasks: Tasks) -> NDArray[np.bool_]:
    """Return the victims without those whose eviction would violate a budget, if budgets are respected."""
    budgets = budgets_of(session)
    if not isinstance(budgets, RespectedBudgets):
        return victims
    chosen = [tasks.tasks[row] for row in np.flatnonzero(victims).tolist()]
    allowed = victims.copy()
    allowed[victims] = ~np.array(budgets.violating(chosen), dtype=np.bool_)
    return allowed


def budgets_of(session: Session) -> DisruptionBudgets | None:
    """Return the budgets of a pass; None if there are none."""
    found: DisruptionBudgets | None = session.extras.get(DisruptionBudgets)
    return found
