"""Rule 2 of the audit of a batch scheduler: no binding exceeds a limit of the pod's queue or of a queue above it."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from pyscheduler_lab.audit.amounts import fits
from pyscheduler_lab.audit.batch_objects import KAI, Queue
from pyscheduler_lab.audit.facts import Bound, Fact
from pyscheduler_lab.audit.rule import Rule
from pyscheduler_lab.audit.world import ALLOCATED, NON_PREEMPTIBLE, World

if TYPE_CHECKING:
    from pyscheduler_lab.audit.history import Change
    from pyscheduler_lab.audit.verdict import Verdict

__all__ = ["LimitRule"]


class LimitRule(Rule):
    """No binding exceeds a limit."""

    number = 2

    def __init__(self, world: World, verdict: Verdict) -> None:
        super().__init__(world, verdict)
        #: Earlier versions of a queue, each with the time at which it was replaced.
        self._earlier: dict[str, list[tuple[float, Queue]]] = defaultdict(list)

    def before(self, change: Change) -> None:
        """Keep the version of a queue that the change replaces."""
        if change.kind == "Queue":
            name = change.obj["metadata"]["name"]
            if name in self.world.queues:
                self._earlier[name].append((change.at, self.world.queues[name]))

    def take(self, fact: Fact) -> None:
        """Check a binding."""
        if not isinstance(fact, Bound):
            return
        self.judge()
        queue = self.world.queue_of(fact.pod)
        problem = self._problem(fact, queue)
        if problem:
            text = f"pod {fact.pod.key} was bound to {fact.pod.node}, but {problem}"
            self.report(fact.at, fact.revision, (fact.pod.key, queue), text)

    def _problem(self, fact: Bound, queue: str) -> str:
        path = self.world.path(queue)
        if not path:
            if self._versions(queue, fact.at):
                return ""
            return f"its queue {queue!r} does not exist"
        top = self.world.queues[path[-1]].parent
        if top and not (top == "root" and self.world.queues[queue].dialect != KAI) and not self._versions(top, fact.at):
            return f"the parent {top!r} of queue {path[-1]} does not exist"
        if not self.world.is_leaf(queue):
            return f"its queue {queue} is not a leaf"
        bound_non_preemptible = not self.world.preemptible(fact.pod)
        for name in path:
            versions = self._versions(name, fact.at)
            for resource, amount in fact.pod.requests.items():
                if amount <= 0:
                    continue
                held = self.world.sum_of(ALLOCATED, name).get(resource, 0.0)
                limit = max(one.limit.get(resource, math.inf) for one in versions)
                if not fits(held, limit):
                    return f"queue {name} has {held:g} of {resource}, above its limit {limit:g}"
                if bound_non_preemptible and versions[0].dialect == KAI:
                    held = self.world.sum_of(NON_PREEMPTIBLE, name).get(resource, 0.0)
                    quota = max(one.quota.get(resource, math.inf) for one in versions)
                    if not fits(held, quota):
                        return f"queue {name} has {held:g} of {resource} not preemptible, above its quota {quota:g}"
        return ""

    def _versions(self, name: str, at: float) -> list[Queue]:
        """Return the queue as it is, and as it was during the last moments."""
        since = at - self.options.in_flight_seconds
        recent = [queue for replaced, queue in self._earlier.get(name, ()) if replaced >= since]
        return ([self.world.queues[name]] if name in self.world.queues else []) + recent
