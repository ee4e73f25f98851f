"""Ledger: count the pods of each namespace, annotate pods, work in the background and serve a page."""

from collections.abc import Callable, Mapping
from typing import Final

from pyscheduler import (
    CycleState,
    Handle,
    Pod,
    PolicyRule,
    PostBindPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    ReservePlugin,
    Status,
)

STAMP: Final = "example.com/placed-on"


class Ledger(ReservePlugin, PreBindPlugin, PostBindPlugin):
    """Count pods by namespace, annotate the pods that ask for a stamp, and show the counts at /ledger."""

    rbac = (PolicyRule(api_groups=("",), resources=("pods",), verbs=("patch",)),)

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self.reserved: dict[str, str] = {}
        #: Entries that a trial has taken out of `reserved`.
        self.freed: dict[str, str] = {}
        self.bound: dict[str, int] = {}
        self.history: list[int] = []
        if handle is not None:
            handle.add_route("/ledger", self.page)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.reserved[pod.uid] = pod.namespace
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        # May be called twice, and without `reserve` before.
        self.reserved.pop(pod.uid, None)
        self.freed.pop(pod.uid, None)

    def release_in_trial(self, pod: Pod, node_name: str) -> Callable[[], None] | None:
        if pod.uid not in self.reserved:
            return None
        self.freed[pod.uid] = self.reserved.pop(pod.uid)

        def restore() -> None:
            if pod.uid in self.freed:  # neither bound nor removed meanwhile
                self.reserved[pod.uid] = self.freed.pop(pod.uid)

        return restore

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        return PreBindPreFlightResult(allow_parallel=True) if STAMP in pod.annotations else Status.skip()

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        patch = {"metadata": {"annotations": {STAMP: node_name}}}
        await self.handle.client.patch(Pod, pod.name, pod.namespace, patch=patch)
        return None

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.pop(pod.uid, None)
        self.freed.pop(pod.uid, None)
        self.bound[pod.namespace] = self.bound.get(pod.namespace, 0) + 1

    async def run(self) -> None:
        """Note every minute how many pods were bound; started with the scheduler, cancelled with it."""
        while True:
            await self.handle.clock.sleep(60)
            self.history.append(sum(self.bound.values()))

    def page(self, query: Mapping[str, str]) -> object:
        """Answer GET /ledger."""
        return {"reserved": sorted(self.reserved.values()), "bound": self.bound, "history": self.history}
