"""Rule 8 of the audit of a batch scheduler: each pending pod shows why it waits.

The reason is a scheduling gate, the pod's condition ``PodScheduled``, or a condition of its PodGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler_lab.audit.rule import Rule

if TYPE_CHECKING:
    from pyscheduler_lab.audit.core_objects import Pod

__all__ = ["ReasonRule"]


class ReasonRule(Rule):
    """Every pending pod has a place and a reason."""

    number = 8

    def finish(self, end: float) -> None:
        """Check all pods that are pending at the end."""
        for pod in self.world.pods.values():
            if not pod.pending or not self.world.is_ours(pod):
                continue
            if end - self.world.first_seen.get(pod.uid, end) < self.options.reason_seconds:
                self.skip()
                continue
            self.judge()
            for text in filter(None, (self._reason_problem(pod), self._place_problem(pod))):
                self.report(end, 0, (pod.key, pod.job), f"pod {pod.key} is pending, but {text}")

    def _reason_problem(self, pod: Pod) -> str:
        if pod.gated or self._said_about_job(pod):
            return ""
        condition = pod.condition("PodScheduled")
        if condition is None:
            return "it has no PodScheduled condition, and its group has no reason"
        if condition.get("status") == "True":
            return "its PodScheduled condition is True"
        if not condition.get("reason") or not condition.get("message"):
            return "its PodScheduled condition has no reason or no message"
        return ""

    def _place_problem(self, pod: Pod) -> str:
        world = self.world
        if pod.group and pod.group not in world.groups:
            what = f"its group {pod.group} does not exist"
        elif not world.path(world.queue_of(pod)):
            what = f"its queue {world.queue_of(pod)!r} does not exist"
        elif not world.is_leaf(world.queue_of(pod)):
            what = f"its queue {world.queue_of(pod)} is not a leaf"
        else:
            return ""
        condition = pod.condition("PodScheduled") or {}
        if condition.get("message") or self._said_about_job(pod) or self._events_of(pod):
            return ""
        return f"{what}, and nothing says so"

    def _said_about_job(self, pod: Pod) -> bool:
        group = self.world.groups.get(pod.group)
        return group is not None and bool(group.reasons)

    def _events_of(self, pod: Pod) -> set[str]:
        return (self.world.events.get(pod.key, set()) | self.world.events.get(pod.job, set())) - {"Scheduled"}
