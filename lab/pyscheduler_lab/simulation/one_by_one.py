"""Place pods one by one, each in one scheduling cycle, on nodes that stay.

A packing experiment asks only which node each pod gets; there is no time in it. `OneByOne` runs the scheduling cycle of
the scheduler that ships, from the snapshot to Permit, without its queue and its binding cycles: a pod is tried as soon
as it comes. If it fits, it holds its node for ever; if it fits nowhere, it is dropped. So the order of the pods is the
caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pyscheduler.framework.pod_info import QueuedPodInfo
from pyscheduler.runtime.cooperative_yield import run_now
from pyscheduler.scheduler.scheduling_cycle import Failure
from pyscheduler_lab.simulation.decisions.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Any

    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.scheduler.assembly import Settings

__all__ = ["OneByOne"]


class OneByOne:
    """Places pods with the first profile of a configuration; use it as an async context manager."""

    def __init__(
        self, config: Configuration, nodes: Iterable[dict[str, Any]], *, registry: Registry, settings: Settings
    ) -> None:
        """Take the manifests of the nodes; raise `ConfigError` for a profile that is not usable."""
        self._session = Session(config, registry=registry, settings=settings)
        self._session.add(*nodes)
        self._profile = self._session.scheduler.profiles[config.profiles[0].scheduler_name]
        self._scheduling = self._session.scheduler.scheduling

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        await self._session.settle()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._session.__aexit__(kind, error, traceback)

    def plugin(self, name: str) -> Plugin:
        """Return a plugin of the profile."""
        return self._profile.plugins[name]

    def place(self, info: PodInfo) -> str:
        """Run the scheduling cycle of a pod; return the node that it has from now on, "" if it fits nowhere.

        Raise `RuntimeError` if the cycle failed for any other reason.
        """
        scheduling = self._scheduling
        attempt = scheduling.begin(self._profile, QueuedPodInfo(pod_info=info, enqueued_at=scheduling.clock.now()))
        scheduling.cache.update_snapshot(scheduling.snapshot)
        found = run_now(scheduling.find_node(attempt, post_filter=False))
        failure = found if isinstance(found, Failure) else scheduling.reserve(attempt, found)
        if failure is None:
            return attempt.node_name
        if not failure.status.is_rejected:
            raise RuntimeError(f"{info.pod.key}: {failure.status.message}") from failure.status.error
        return ""
