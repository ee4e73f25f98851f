"""A plugin that goes wrong at random, at every extension point, in every way there is; and stops on request."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    NodeInfo,
    PermitPlugin,
    Pod,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueingHint,
    ReservePlugin,
    ScorePlugin,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["POINTS", "Trouble"]

#: The ways to go wrong at each extension point; `cancel` is an awaited thing that was cancelled by somebody else.
POINTS = {
    "PreEnqueue": ("raise", "reject", "nonsense"),
    "PreFilter": ("raise", "reject", "pending", "nonsense"),
    "Filter": ("raise", "reject", "nonsense"),
    "PostFilter": ("raise", "nonsense"),
    "PreScore": ("raise", "reject", "nonsense"),
    "Score": ("raise", "nonsense"),
    "Reserve": ("raise", "reject", "pending", "nonsense"),
    "Unreserve": ("raise", "nonsense"),
    "Permit": ("raise", "reject", "wait", "nonsense"),
    "PreBindPreFlight": ("raise", "reject", "work", "nonsense"),
    "PreBind": ("raise", "reject", "slow", "cancel", "nonsense"),
    "PostBind": ("raise", "cancel", "nonsense"),
    "Hint": ("raise", "skip"),
}

#: What comes late in a cycle, or seldom, goes wrong more often, so that all of it happens.
_OFTEN = {
    "PostFilter": 2, "PreScore": 3, "Score": 2, "Reserve": 3, "Unreserve": 8,
    "Permit": 8, "PreBindPreFlight": 4, "PreBind": 12, "PostBind": 4, "Hint": 6,
}  # fmt: skip


class Trouble(  # type: ignore[misc] - one class with every extension point, which only a test wants
    PreEnqueuePlugin,
    EnqueueExtensions,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    PostBindPlugin,
):
    """Draws from `rng` at every call; `counts` says how often it did what, `reserved` what it holds."""

    rng: ClassVar[random.Random] = random.Random(0)
    share: ClassVar[float] = 0.0
    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self, args: object = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self.reserved: dict[str, str] = {}

    @classmethod
    def begin(cls, seed: int, share: float) -> None:
        """Start a new history."""
        cls.rng, cls.share, cls.counts = random.Random(seed), share, Counter()

    def _draw(self, point: str) -> str:
        """Return what is to go wrong this time, or "" for nothing; raise where it is an exception."""
        if self.rng.random() >= self.share * _OFTEN.get(point, 1):
            return ""
        kind = self.rng.choice(POINTS[point])
        self.counts[f"{point} {kind}"] += 1
        if kind == "raise":
            raise ZeroDivisionError(f"{point} of Trouble")
        return kind

    def _answer(self, point: str) -> Any:
        kind = self._draw(point)
        if kind == "reject":
            return Status.unschedulable(f"trouble at {point}")
        if kind == "pending":
            return Status(6, f"trouble at {point}")  # type: ignore[arg-type] - Code.PENDING, as a careless plugin has it
        return object() if kind == "nonsense" else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        resources = (EventResource.NODE, EventResource.POD)
        return [ClusterEventWithHint(ClusterEvent(resource, ActionType.ALL), self._hint) for resource in resources]

    def _hint(self, pod: Pod, old: object, new: object) -> QueueingHint:
        return QueueingHint.SKIP if self._draw("Hint") else QueueingHint.QUEUE

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return self._answer("PreEnqueue")  # type: ignore[no-any-return]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: object) -> Any:
        return self._answer("PreFilter")

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return self._answer("Filter")  # type: ignore[no-any-return]

    def post_filter(self, state: CycleState, pod: Pod, statuses: object) -> Any:
        return self._answer("PostFilter") or (None, Status.unschedulable())

    def pre_score(self, state: CycleState, pod: Pod, nodes: object) -> Status | None:
        return self._answer("PreScore")  # type: ignore[no-any-return]

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return self._answer("Score") or 1

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.reserved[pod.uid] = node_name
        return self._answer("Reserve")  # type: ignore[no-any-return]

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.pop(pod.uid, None)
        return self._answer("Unreserve")  # type: ignore[no-any-return]

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        answer = self._draw("Permit")
        if answer == "reject":
            return Status.unschedulable("trouble at Permit")
        if answer == "wait":
            return Status.wait("in trouble", timeout=self.rng.randrange(1, 10))
        return object() if answer else None  # type: ignore[return-value]

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        kind = self._draw("PreBindPreFlight")
        if kind == "reject":
            return Status.unschedulable("trouble at PreBindPreFlight")
        return {"work": None, "nonsense": object(), "": None if self.rng.random() < 0.2 else Status.skip()}[kind]

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        kind = self._draw("PreBind")
        assert self.handle is not None
        if kind == "slow":
            await self.handle.clock.sleep(self.rng.random() * 3)
        elif kind == "cancel":
            raise asyncio.CancelledError
        elif kind == "reject":
            return Status.unschedulable("trouble at PreBind")
        return object() if kind == "nonsense" else None

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.pop(pod.uid, None)
        if self._draw("PostBind") == "cancel":
            raise asyncio.CancelledError
