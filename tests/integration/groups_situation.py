"""A cluster in which a test sets up one situation after another, looked at at each moment as `group_history` does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pyscheduler.testing import pod_manifest
from tests.integration.group_history import GroupHistory

__all__ = ["Situation"]

CREATED: Final = "2026-01-01T00:00:00Z"


class Situation(GroupHistory):
    """A cluster under a profile, looked at at each moment; its groups are as many as a report has."""

    def declare(self, group: str, minimum: int, **keywords: Any) -> None:
        """Declare a group."""
        self._declare(group, minimum, **keywords)

    def pods(self, group: str, count: int) -> None:
        """Create members of a group, or plain pods, of one core each."""
        self._pods(group, count)

    def node(self, cores: int) -> str:
        """Add a node; return its name."""
        self._node(cores)
        return f"n{self._made}"

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.runner.run(self.advance(seconds))

    def states(self, group: str) -> Counter[str]:
        """Count living members, or the plain pods, by what has become of them."""
        found: Counter[str] = Counter()
        for pod in self._living(group):
            waits = self.framework.scheduler.waiting_pods.get(pod["metadata"]["uid"]) is not None
            found["bound" if pod["spec"].get("nodeName") else "waiting" if waits else "pending"] += 1
        return found

    def delete(self, group: str, count: int | None = None) -> None:
        """Delete members of a group."""
        for pod in self._living(group)[:count]:
            self.cluster.delete_pod(pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])

    def fail(self, group: str) -> None:
        """Let the members of a group end badly."""
        for pod in self._living(group):
            self._patch_pod(pod, {"status": {"phase": "Failed"}}, status=True)

    def plant(self, group: str, spec: dict[str, Any]) -> None:
        """Store an object as no definition would let it in."""
        namespace, _, name = group.partition("/")
        metadata = {"name": name, "namespace": namespace, "uid": f"planted-{name}", "creationTimestamp": CREATED}
        version = self.way.counting.api_version
        self.server.plant({"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec})

    def annotated(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Create a pod that says of itself what it belongs to."""
        said = {key: value for key, value in annotations.items() if value is not None}
        self.server.add(
            pod_manifest(name, scheduler_name=self.name, requests={"cpu": "1"}, annotations=said, priority=0)
        )

    def foreign(self, group: str, count: int, *, node: str = "") -> None:
        """Create members that another scheduler is asked to bind, or has bound."""
        ours, self.name = self.name, "somebody-else"
        self._pods(group, count, node=node)
        self.name = ours

    def important(self, group: str, count: int) -> None:
        """Create members that may preempt others."""
        self._pods(group, count, priority=100)

    def bound_in(self, namespace: str) -> int:
        """Return how many pods of a namespace are bound."""
        return sum(bool(pod["spec"].get("nodeName")) for pod in self.server.pods(namespace=namespace))

    def take_away_definition(self) -> None:
        """Delete the definition of the objects, which go with it."""
        assert self._served()
        self.delete_or_create_definition()

    def give_definition_back(self) -> None:
        """Create it again."""
        assert not self._served()
        self.delete_or_create_definition()

    def change(self, group: str, patch: Mapping[str, Any]) -> None:
        """Change the object of a group."""
        assert self._patch_object(group, patch)

    def change_pods(self, group: str, patch: Mapping[str, Any]) -> None:
        """Change all living members of a group."""
        for pod in self._living(group):
            self._patch_pod(pod, patch)

    def living(self, group: str) -> list[dict[str, Any]]:
        """Return the living members of a group, or the plain pods."""
        return self._living(group)

    def undeclare(self, group: str) -> None:
        """Delete the object of a group."""
        namespace, _, name = group.partition("/")
        self.server.remove(self.way.counting.api_version, "PodGroup", name, namespace=namespace)

    def turn(self, times: int) -> None:
        """Let the event loop turn so many times."""

        async def turning() -> None:
            for _ in range(times):
                await asyncio.sleep(0)

        self.runner.run(turning())

    def messages(self, group: str) -> list[str]:
        """Return what was told of the failures of a group's pods."""
        name = group.partition("/")[2]
        found = self.cluster.events("FailedScheduling")
        return [event["note"] for event in found if event["regarding"]["name"].startswith(f"{name}-")]

    def attempts(self, group: str) -> int:
        """Return the most attempts that any pending member has had."""
        queue = self.framework.scheduler.queue
        found = [queue.get(pod["metadata"]["uid"]) for pod in self._living(group)]
        return max(one.attempts for one in found if one is not None)

    async def stop(self) -> None:
        """Stop, and look once more."""
        self.cluster.assert_invariants()
        self.checker.close()
        await self.cluster.close()
