"""Place a pod on the node that an agent has chosen, with the plugins of a profile."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from pyscheduler.api import Pod
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.extension_points.reserving import reserve
from pyscheduler.runtime.placement import feasible_nodes
from pyscheduler_lab.simulation.gpu_profile import with_gpu_sharing
from pyscheduler_lab.simulation.group_objects import default_dialect
from pyscheduler_lab.simulation.one_by_one import OneByOne
from pyscheduler_lab.simulation.replay_objects import pod_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_batch.gpu_sharing.plugin import GpuSharing
    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.traces import Job

__all__ = ["Placer"]

_UIDS: Final = uuid.UUID("5b0e6c0e-7d0c-4d0e-9f0b-0f5a5c0c35e1")


class Placer(OneByOne):
    """The first profile of a configuration on a cluster without pods; raises `ConfigError` if it cannot be built."""

    def __init__(
        self, cluster: Cluster, config: Configuration, *, shares_gpus: bool, registry: Registry | None = None
    ) -> None:
        if config.extenders:
            raise ConfigError("the environment asks no extenders; remove them from the configuration")
        registry = registry if registry is not None else discover()
        config = with_gpu_sharing(config) if shares_gpus else config
        super().__init__(config, cluster.manifests(shares_gpus=shares_gpus), registry=registry)
        table = registry.dialect_table()
        self._dialect = table.named(default_dialect(self.profile.plugins, table))
        #: By uid, the pods with a node.
        self._placed: dict[str, tuple[Pod, CycleState]] = {}
        nodes = self.nodes
        rows = [nodes.name(row) for row in range(len(nodes))]
        assert rows == [node.name for node in cluster.nodes], "rows are in the order of the nodes"

    @property
    def nodes(self) -> Nodes:
        """Return the nodes of the snapshot, brought up to date."""
        self.scheduler.cache.update_snapshot(self.scheduler.snapshot)
        return self.scheduler.snapshot.nodes

    @property
    def sharing(self) -> GpuSharing | None:
        """Return the plugin that shares GPUs, if the profile has it."""
        return cast("GpuSharing | None", self.plugin("GpuSharing"))

    def pod_of(self, job: Job, number: int) -> PodInfo:
        """Return a new pod for one worker of a job."""
        manifest = pod_of(job, number, self._dialect, scheduler_name=self.profile.name, has_group=False)
        # From the name, so that an episode does not depend on the episodes before it.
        manifest["metadata"]["uid"] = str(uuid.uuid5(_UIDS, manifest["metadata"]["name"]))
        pod = self.objects.create(manifest)
        assert isinstance(pod, Pod)
        return PodInfo.of(pod)

    def feasible(self, info: PodInfo, state: CycleState) -> NDArray[np.bool_]:
        """Run PreFilter and Filter; return bool[n], True for nodes that can take the pod.

        Raises `PluginError` if a plugin failed.
        """
        nodes = self.nodes
        found = np.zeros(len(nodes), dtype=np.bool_)
        with suppress(FitError):
            found[feasible_nodes(self.profile, state, info.pod, nodes).rows] = True
        return found

    def place_on(self, row: int, info: PodInfo, state: CycleState) -> Status | None:
        """Assume the pod on a node, and run Reserve and Permit; return why that was undone, or None.

        `state` is that of `feasible`.
        """
        name = self.scheduler.snapshot.nodes.name(row)
        assumed = info.with_pod(info.pod.with_node_name(name))
        pod = assumed.pod
        self.scheduler.cache.assume_pod(assumed)
        status, _ = reserve(self.profile, state, pod, name)
        if status is None:
            self._placed[pod.uid] = pod, state
            return None
        if status.is_wait:
            self.profile.run_unreserve(state, pod, name)
        self.scheduler.cache.forget_pod(pod)
        return status

    def remove(self, uid: str) -> None:
        """Take a pod from its node: run Unreserve, and forget the pod."""
        pod, state = self._placed.pop(uid)
        self.profile.run_unreserve(state, pod, pod.node_name)
        self.scheduler.cache.forget_pod(pod)

    def clear(self) -> None:
        """Take all pods from their nodes."""
        for uid in [*self._placed]:
            self.remove(uid)
