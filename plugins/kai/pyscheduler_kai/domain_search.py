"""Find victims for a job that must run in one topology domain, such as one rack.

The search makes one eviction plan for each domain where evictions can make enough room. It simulates the plan with
the fewest evictions first, then the other plans, until the job finds nodes. If no plan succeeds, the search simulates
for each domain the eviction of all possible victims there.

Differs from KAI-Scheduler: KAI takes victims in the order of queues until some domain has room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np

from pyscheduler_batch.contract import ACTIVE, ALLOCATED, NO_NODE
from pyscheduler_kai.scenario import Scenario, Unit
from pyscheduler_kai.switches import ScenarioGenerator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Task
    from pyscheduler_kai.gang import Gang
    from pyscheduler_kai.placement import Placement
    from pyscheduler_kai.scenario import Probe
    from pyscheduler_kai.topologies import TopologyTree

__all__ = ["DomainGenerator", "DomainSearch"]

#: So many domains at least, the most promising ones by an estimate, are compared by the tasks that are evicted.
_COMPARED: Final = 4
_TOLERANCE: Final = 1e-9


class DomainGenerator(ScenarioGenerator):
    """Proposes the victims in one domain of the level that the job requires, for all its tasks at once.

    `candidates` returns the jobs that may be evicted.
    """

    name: ClassVar[str] = "topology-domains"
    default_seconds: ClassVar[float] = 0.0

    def __init__(
        self,
        tree: TopologyTree,
        level: int,
        candidates: Callable[[], Iterable[Gang]],
        in_order: Callable[[Iterable[Gang]], Sequence[Gang]],
    ) -> None:
        super().__init__()
        self._tree = tree
        self._level = level
        self._candidates = candidates
        self._in_order = in_order

    def scenarios(self, probe: Probe) -> Iterator[Scenario | None]:
        """Yield scenarios for a probe."""
        search = DomainSearch(
            probe.placement, self._tree, self._level, probe.gang, probe.pending, self._candidates(), self._in_order
        )
        for units in search.plans():
            yield Scenario((), units)


@attrs.define(eq=False)
class _Step:
    """Units of a job that are evicted together with those of its earlier steps; `cost`: their number of tasks."""

    job: int
    units: list[Unit]
    cost: int
    #: By node of the domain, what becomes free.
    freed: dict[int, list[float]]


class DomainSearch:
    """Proposes victims for the tasks `pending` of a job, domain by domain.

    `candidates` are the jobs that may be evicted; `in_order` returns them in the order of victims. `level` is the
    required one.
    """

    def __init__(
        self,
        placement: Placement,
        tree: TopologyTree,
        level: int,
        gang: Gang,
        pending: Sequence[Task],
        candidates: Iterable[Gang],
        in_order: Callable[[Iterable[Gang]], Sequence[Gang]],
    ) -> None:
        self._in_order = in_order
        self._count = len(pending)
        table = placement.table
        masks = {id(mask): mask for mask in map(placement.curable, pending)}
        usable = np.logical_or.reduce([*masks.values()])
        if table.ready is not None:
            usable = usable & table.ready
        requests = np.array([task.request for task in pending])
        asked = requests.max(axis=0) > 0
        self._asked = np.flatnonzero(asked)
        self._most = requests.max(axis=0)[asked]
        self._free: NDArray[np.float64] = table.future[:, asked]
        used = [task.node for task in gang.job.tasks.values() if task.state in ALLOCATED and task.node != NO_NODE]
        inside = usable & (tree.ids[level] >= 0)
        if used:
            inside &= np.isin(tree.ids[level], tree.ids[level, used])
        self._of = np.where(inside, tree.ids[level], -1)
        self._domains = len(tree.names[level])
        #: By domain, the candidates with tasks in it.
        self._jobs: dict[int, dict[str, Gang]] = {}
        #: By domain that may have room without all candidates, about how many tasks are to be evicted.
        self._estimates = self._estimate(requests.min(axis=0)[asked], candidates)

    def _estimate(self, least: NDArray[np.float64], candidates: Iterable[Gang]) -> dict[int, float]:
        of = self._of.tolist()
        rows: list[int] = []
        freed: list[NDArray[np.float64]] = []
        for gang in candidates:
            for task in gang.tasks:
                if task.state in ACTIVE and task.node != NO_NODE and (domain := of[task.node]) >= 0:
                    rows.append(task.node)
                    freed.append(task.request)
                    self._jobs.setdefault(domain, {})[gang.job.uid] = gang
        later = self._free.copy()
        losses: NDArray[np.float64] = np.zeros(len(of))
        if rows:
            np.add.at(later, rows, np.array(freed)[:, self._asked])
            np.add.at(losses, rows, 1.0)
        inside = self._of >= 0
        bound = least > 0
        places = np.full(len(of), float(self._count))
        if bound.any():
            places = _places(later[:, bound], least[bound])
        total = np.bincount(self._of[inside], weights=places[inside], minlength=self._domains)
        now = _places(self._free, self._most)
        gained = np.maximum(_places(later, self._most) - now, 0.0)
        each = np.divide(losses, gained, out=np.full(len(of), np.inf), where=gained > 0)
        estimates: dict[int, float] = {}
        for domain in np.flatnonzero(total >= self._count).tolist():
            mine = np.flatnonzero(self._of == domain)
            missing = self._count - float(now[mine].sum())
            cheap = mine[np.argsort(each[mine], kind="stable")]
            before = np.concatenate([[0.0], np.cumsum(gained[cheap])[:-1]])
            taken = np.clip(missing - before, 0.0, gained[cheap])
            cost = float((taken * np.where(np.isfinite(each[cheap]), each[cheap], 0.0)).sum())
            estimates[domain] = cost + max(missing - float(taken.sum()), 0.0)
        return estimates

    def plans(self) -> Iterator[Sequence[Unit]]:
        """Yield units to evict, the fewest tasks first; then, for each domain, all units in it."""
        order = sorted(self._estimates, key=self._estimates.__getitem__)
        compared: list[tuple[int, int, Sequence[Unit]]] = []
        least = float("inf")
        while order and (len(compared) < _COMPARED or self._estimates[order[0]] < least):
            domain = order.pop(0)
            cost, chosen = self._choose(domain)
            compared.append((cost, len(compared), chosen))
            if chosen:
                least = min(least, cost)
        yield from (chosen for _, _, chosen in sorted(compared, key=lambda each: each[:2]) if chosen)
        for domain in order:
            yield self._choose(domain)[1]
        for domain in self._estimates:
            yield [unit for step in self._steps(domain) for unit in step.units]

    def _steps(self, domain: int) -> list[_Step]:
        """Return the steps of the candidates of a domain, in the order of victims."""
        of, found = self._of, []
        for number, gang in enumerate(self._in_order(self._jobs.get(domain, {}).values())):
            waiting: list[Unit] = []
            for tasks in _units(gang):
                waiting.append(Unit(gang, tasks))
                freed: dict[int, list[float]] = {}
                for task in (task for unit in waiting for task in unit.tasks):
                    if task.node != NO_NODE and of[task.node] == domain:
                        amounts = task.request[self._asked].tolist()
                        freed[task.node] = _sum(freed[task.node], amounts) if task.node in freed else amounts
                if freed:
                    found.append(_Step(number, waiting, sum(len(unit.tasks) for unit in waiting), freed))
                    waiting = []
        return found

    def _choose(self, domain: int) -> tuple[int, Sequence[Unit]]:
        """Return the fewest tasks to evict in a domain, as far as trying the cheapest place next finds them."""
        steps = self._steps(domain)
        rooms = _Rooms(self._free, self._most.tolist(), np.flatnonzero(self._of == domain).tolist())
        on_node: dict[int, list[int]] = {}
        for at, step in enumerate(steps):
            for node in step.freed:
                on_node.setdefault(node, []).append(at)
        earlier = _chains(steps)
        chosen: set[int] = set()
        offers: dict[int, tuple[float, int, list[int]]] = {}
        stale: Iterable[int] = on_node
        while rooms.total < self._count:
            for node in stale:
                offer = rooms.cheapest(node, on_node[node], steps, earlier, chosen)
                if offer is None:
                    offers.pop(node, None)
                else:
                    offers[node] = offer
            if not offers:
                return sum(step.cost for step in steps), ()
            _, _, taken = min(offers.values(), key=lambda offer: offer[:2])
            for at in taken:
                chosen.add(at)
                rooms.free_up(steps[at])
            stale = {node for at in taken for node in steps[at].freed}
            # An offer with a step that was taken, or follows one, costs less now.
            stale |= {node for node, offer in offers.items() if not chosen.isdisjoint(offer[2])}
        followers: dict[int, list[int]] = {at: [] for at in chosen}
        for at in chosen:
            for before in earlier[at]:
                followers[before].append(at)
        for at in sorted(chosen, key=lambda each: (-steps[each].cost, each)):
            is_needed = followers[at] and any(other in chosen for other in followers[at])
            if not is_needed and rooms.total_without(steps[at]) >= self._count:
                chosen.discard(at)
                rooms.take_back(steps[at])
        return sum(steps[at].cost for at in chosen), [unit for at in sorted(chosen) for unit in steps[at].units]


class _Rooms:
    """The free amounts on the nodes of a domain, and the number of tasks that they hold."""

    def __init__(self, free: NDArray[np.float64], request: list[float], nodes: list[int]) -> None:
        self._request = request
        self._free: dict[int, list[float]] = {node: free[node].tolist() for node in nodes}
        self._held = {node: self._holds(amounts) for node, amounts in self._free.items()}
        self.total = sum(self._held.values())

    def _holds(self, amounts: Sequence[float]) -> int:
        pairs = zip(amounts, self._request, strict=True)
        return max(int(min((free + _TOLERANCE) // wanted for free, wanted in pairs)), 0)

    def cheapest(
        self,
        node: int,
        there: Sequence[int],
        steps: Sequence[_Step],
        earlier: Sequence[frozenset[int]],
        chosen: set[int],
    ) -> tuple[float, int, list[int]] | None:
        """Return the tasks to evict per place won on a node, the node, and the steps; None if no place can be won."""
        best: tuple[float, int, list[int]] | None = None
        left = [at for at in there if at not in chosen]
        for order in (left, sorted(left, key=lambda at: steps[at].cost / max(steps[at].freed[node]))):
            amounts, taken = self._free[node], []
            cost = 0
            for at in order:
                new = [each for each in sorted({*earlier[at], at}) if each not in chosen and each not in taken]
                for each in new:
                    taken.append(each)
                    cost += steps[each].cost
                    if node in steps[each].freed:
                        amounts = _sum(amounts, steps[each].freed[node])
                won = self._holds(amounts) - self._held[node]
                if won > 0:
                    if best is None or cost / won < best[0]:
                        best = (cost / won, node, taken)
                    break
        return best

    def free_up(self, step: _Step) -> None:
        """Evict a step."""
        self._change(step, 1.0)

    def take_back(self, step: _Step) -> None:
        """Take the eviction of a step back."""
        self._change(step, -1.0)

    def total_without(self, step: _Step) -> int:
        """Return how many tasks the domain would hold without the eviction of a step."""
        self._change(step, -1.0)
        found = self.total
        self._change(step, 1.0)
        return found

    def _change(self, step: _Step, sign: float) -> None:
        for node, amounts in step.freed.items():
            free = [have + sign * more for have, more in zip(self._free[node], amounts, strict=True)]
            self._free[node] = free
            held = self._holds(free)
            self.total += held - self._held[node]
            self._held[node] = held


def _places(free: NDArray[np.float64], request: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64[N]: how many tasks of a request each node holds."""
    found: NDArray[np.float64] = np.clip(np.floor((free + _TOLERANCE) / request).min(axis=1), 0.0, None)
    return found


def _sum(left: Sequence[float], right: Sequence[float]) -> list[float]:
    return [first + second for first, second in zip(left, right, strict=True)]


def _units(gang: Gang) -> Iterator[list[Task]]:
    """Yield what is evicted of a job, one unit after the other."""
    left = gang
    while True:
        tasks = left.to_evict()
        if not tasks:
            return
        yield tasks
        gone = {task.uid for task in tasks}
        rest = [task for task in left.tasks if task.uid not in gone]
        if not any(task.state in ACTIVE for task in rest):
            return
        left = left.part(rest)


def _chains(steps: Sequence[_Step]) -> list[frozenset[int]]:
    """Return for each step the earlier steps of its job."""
    seen: dict[int, list[int]] = {}
    found = []
    for at, step in enumerate(steps):
        before = seen.setdefault(step.job, [])
        found.append(frozenset(before))
        before.append(at)
    return found
