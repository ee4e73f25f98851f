"""Small plugins that the scheduler's tests watch at work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from pyscheduler import (
    CycleState,
    FilterPlugin,
    NodeInfo,
    PermitPlugin,
    Pod,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
    Status,
)

if TYPE_CHECKING:
    from pyscheduler.framework.interfaces import PreBindPreFlightResult


class Holder(PermitPlugin):
    """Holds every pod labelled `hold` for ten seconds."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait("held", timeout=10) if "hold" in pod.labels else None


class Journal(ReservePlugin, PreBindPlugin, PostBindPlugin):
    """Writes down what it is called for; refuses or fails where the pod's labels say so."""

    def __init__(self, args: object = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self.lines: list[str] = []
        self.broken = 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.lines.append(f"reserve {pod.name} {node_name}")
        return Status.unschedulable("no seat left") if pod.labels.get("refuse") == "reserve" else None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.lines.append(f"unreserve {pod.name} {node_name}")

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        return None if pod.labels.get("prepare") else Status.skip()

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await asyncio.sleep(0)
        self.lines.append(f"pre_bind {pod.name}")
        if pod.labels.get("prepare") == "fails-once" and not self.broken:
            self.broken += 1
            raise RuntimeError("disk on fire")
        return None

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.lines.append(f"post_bind {pod.name}")


class Broken(FilterPlugin):
    """Raises for pods labelled `break`."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if "break" in pod.labels:
            raise ValueError("no such luck")
        return None


class Picky(FilterPlugin):
    """Refuses every node for pods labelled `picky`, one node at a time; counts its calls."""

    calls: ClassVar[list[tuple[str, str]]] = []

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        self.calls.append((pod.name, node.name))
        return Status.unschedulable("node(s) were not pretty enough") if "picky" in pod.labels else None


class Counting(FilterPlugin):
    """Lets every node pass and counts its calls."""

    def __init__(self, args: object = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self.calls: list[str] = []

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        self.calls.append(node.name)
        return None
