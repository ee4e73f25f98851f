"""Delete the victims of a preemption one at a time, and search for victims again after each deletion.

The check finds plugins that name too many victims. For example, a queue exceeds its quota by one pod, and the plugin
names two.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.preemption import names_in_turn
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.testing.checks.plugin_calls import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.preemption import Candidate
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.preemption.search import Preemption
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.testing.checks.observation import Observation
    from pyscheduler.testing.fake_cluster import FakeCluster
    from pyscheduler.testing.fake_framework import FakeFramework

__all__ = ["VictimsInTurn"]


@attrs.define
class VictimsInTurn:
    """Looks at what the plugin's preemptor evicted in each step."""

    framework: FakeFramework
    cluster: FakeCluster
    profile: Profile
    seen: Observation
    _preemptor: Preemption | None = None
    _evicted: list[tuple[Candidate, Pod]] = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        handle = getattr(self.profile.plugins[self.seen.plugin], "handle", None)
        self._preemptor = getattr(handle, "preemptors", {}).get(self.seen.plugin)
        if self._preemptor is None:
            return
        evict: Callable[[Candidate, Pod], Coroutine[object, object, Status | None]] = self._preemptor.evict

        async def observed(chosen: Candidate, pod: Pod) -> Status | None:
            self._evicted.append((chosen, pod))
            return await evict(chosen, pod)

        setattr(self._preemptor, "evict", observed)  # noqa: B010 - its own calls look it up, too

    async def check(self) -> None:
        """Add a finding if the victims of this step's preemption would not all be victims one at a time."""
        evicted, self._evicted[:] = [*self._evicted], []
        # Several preemptors may take each other's room.
        if len(evicted) == 1 and self._preemptor is not None:
            chosen, pod = evicted[0]
            await self._evict_in_turn(self._preemptor, chosen, pod)

    async def _evict_in_turn(self, preemptor: Preemption, chosen: Candidate, pod: Pod) -> None:
        victims = [info.pod for info in reversed(chosen.victims)]  # the least important first
        for number, victim in enumerate(victims[:-1], 1):
            placed = self._placed()
            if placed.pop(victim.uid, None) is None or not self._has_room_for(pod, chosen.node_name):
                return
            self.cluster.delete_pod(victim.name, namespace=victim.namespace)
            await self.framework.settle()
            with _searching_anew(preemptor):
                found = await evaluate(self.framework.scheduler, self.profile, pod)
            status = found.preemption.statuses.get(chosen.node_name) if found.preemption is not None else None
            if self._placed() != placed or not self._has_room_for(pod, chosen.node_name):
                return  # other pods have come or gone
            if status is not None and not status.is_error:
                self._report(preemptor, chosen, pod, victims[:number], victims[number:])
            if status is not None or found.fit_error is None:
                return

    def _placed(self) -> dict[str, str]:
        """Return the nodes of all pods that have one, by uid."""
        return {info.pod.uid: node.name for node in self.framework.nodes() for info in node.pods}

    def _has_room_for(self, pod: Pod, node_name: str) -> bool:
        """Return True if the pod waits and is the only one nominated to the node."""
        nominated: Mapping[str, Pod] = {
            info.pod.uid: info.pod for info in self.framework.scheduler.queue.nominator.pods_on(node_name)
        }
        return set(nominated) <= {pod.uid} and self.framework.scheduler.queue.get(pod.uid) is not None

    def _report(
        self, preemptor: Preemption, chosen: Candidate, pod: Pod, gone: Sequence[Pod], left: Sequence[Pod]
    ) -> None:
        rules = preemptor._rules  # noqa: SLF001 - the finding names their method
        method = rules.potential_victims if names_in_turn(rules) else rules.may_evict
        what = (
            f"for pod {pod.key}, it allows all of {_keys([*gone, *left])} as victims on node {chosen.node_name}; "
            f"once {_keys(gone)} is gone, not {_keys(left)}"
        )
        self.seen.add("victims", describe(method, type(rules).__name__), what)


@contextmanager
def _searching_anew(preemptor: Preemption) -> Iterator[None]:
    """Let the preemptor search although it waits for the end of its victims."""
    setattr(preemptor, "refusal", lambda _pod, _statuses: "")  # noqa: B010 - of this object only
    try:
        yield
    finally:
        del preemptor.refusal


def _keys(pods: Sequence[Pod]) -> str:
    return ", ".join(pod.key for pod in pods)
