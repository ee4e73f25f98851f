"""Place pods one by one, each in one scheduling cycle, without queue, preemption or binding."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import Node
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster, objects_of
from pyscheduler.framework.pod_info import QueuedPodInfo
from pyscheduler.runtime.cooperative_yield import run_now
from pyscheduler.scheduler.assembly import build
from pyscheduler.scheduler.scheduling_cycle import Failure
from pyscheduler_lab.simulation.decisions.typed_cluster import TypedCluster

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.scheduler.assembly import Settings

__all__ = ["OneByOne"]


class OneByOne:
    """Places pods with the first profile of a configuration."""

    def __init__(
        self,
        config: Configuration,
        nodes: Iterable[dict[str, Any]],
        *,
        registry: Registry,
        settings: Settings | None = None,
    ) -> None:
        """Take the manifests of the nodes; raise `ConfigError` for a profile that is not usable."""
        clock = VirtualClock()
        #: Completes manifests with defaults; the scheduler does not read it.
        self.objects = TypedCluster(clock=clock, rng=random.Random(0))
        made = [each for each in map(self.objects.create, nodes) if isinstance(each, Node)]
        cluster = ReadOnlyCluster(objects_of({Node: made}))
        #: The scheduler, for inspection by the caller.
        self.scheduler = build(config, cluster, clock, random.Random(0), registry=registry, settings=settings)
        self.profile = self.scheduler.profiles[config.profiles[0].scheduler_name]
        run_now(self.scheduler.start())

    def plugin(self, name: str) -> Plugin | None:
        """Return a plugin of the profile; None if the profile does not have it."""
        return self.profile.plugins.get(name)

    def place(self, info: PodInfo) -> str:
        """Run the scheduling cycle of a pod; return the node that it has from now on, "" if it fits nowhere.

        Raise `RuntimeError` if the cycle failed for any other reason.
        """
        scheduling = self.scheduler.scheduling
        attempt = scheduling.begin(self.profile, QueuedPodInfo(pod_info=info, enqueued_at=scheduling.clock.now()))
        scheduling.cache.update_snapshot(scheduling.snapshot)
        found = run_now(scheduling.find_node(attempt, post_filter=False))
        failure = found if isinstance(found, Failure) else scheduling.reserve(attempt, found)
        if failure is None:
            return attempt.node_name
        if not failure.status.is_rejected:
            raise RuntimeError(f"{info.pod.key}: {failure.status.message}") from failure.status.error
        return ""
