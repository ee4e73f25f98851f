"""Stand-ins for the default plugins that are not written yet.

A pod that uses a field which one of them decides about must not be placed as if the field were not there. Each
stand-in bears the name of the plugin whose place it keeps, and rejects such pods in PreFilter, unresolvably, with a
message that names the field and the plugin; all other pods it skips. So the default profile loads, and a profile that
disables one of these plugins ignores its fields, as in kube-scheduler. One table says which fields belong to which.

Differs from kube-scheduler: the pods named above wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Pod
from pyscheduler.framework import (
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    Nodes,
    NodeStatuses,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    Status,
)
from pyscheduler.framework.plugin_args import (
    VolumeBindingArgs,
)

__all__ = [
    "GangScheduling",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
    "unsupported_fields",
]


@attrs.frozen
class _Field:
    """A field of the pod's spec, the plugins that decide about it, and how to see that a pod uses it."""

    path: str
    plugins: tuple[str, ...]
    is_used: Callable[[Pod], bool]


def _volume(source: str, attribute: str, *plugins: str) -> _Field:
    def is_used(pod: Pod) -> bool:
        return any(getattr(volume, attribute) is not None for volume in pod.spec.volumes)

    return _Field(f"spec.volumes[].{source}", plugins, is_used)


# Volumes not listed (config maps, secrets, empty directories, inline CSI volumes ...) concern no plugin of
# kube-scheduler either.
_FIELDS: Final = (
    _volume(
        "persistentVolumeClaim",
        "persistent_volume_claim",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
    ),
    _volume("ephemeral", "ephemeral", "NodeVolumeLimits", "VolumeBinding"),
    _volume("gcePersistentDisk", "gce_persistent_disk", "VolumeRestrictions", "NodeVolumeLimits"),
    _volume("awsElasticBlockStore", "aws_elastic_block_store", "VolumeRestrictions", "NodeVolumeLimits"),
    _volume("rbd", "rbd", "VolumeRestrictions"),
    _volume("iscsi", "iscsi", "VolumeRestrictions"),
    _volume("azureDisk", "azure_disk", "NodeVolumeLimits"),
    _volume("azureFile", "azure_file", "NodeVolumeLimits"),
    _volume("cinder", "cinder", "NodeVolumeLimits"),
    _volume("portworxVolume", "portworx_volume", "NodeVolumeLimits"),
    _volume("vsphereVolume", "vsphere_volume", "NodeVolumeLimits"),
    _Field("spec.schedulingGroup", ("GangScheduling",), lambda pod: pod.spec.scheduling_group is not None),
)


def unsupported_fields(pod: Pod) -> list[tuple[str, str]]:
    """Return (field, plugin) for each field of `pod` that a plugin which is not written yet would decide about."""
    return [(field.path, plugin) for field in _FIELDS if field.is_used(pod) for plugin in field.plugins]


def _rejection(what: str, plugin: str) -> Status:
    return Status.unresolvable(f"{what}, which plugin {plugin} would decide; it is not implemented yet")


class _StandIn(PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    """Reject pods that use a field of the plugin of this name."""

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._fields = tuple(field for field in _FIELDS if self.name in field.plugins)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        return self._judge(pod) or Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        # Reached only in a profile that disables PreFilter of this plugin.
        rejection = self._judge(pod)
        return NodeStatuses.failing(np.ones(len(nodes), dtype=np.bool_), rejection) if rejection is not None else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # These fields do not change after a pod was made, so nothing that happens can help.
        return ()

    def _judge(self, pod: Pod) -> Status | None:
        """Return why the pod has to wait, None where this plugin would not care about it."""
        used = [field.path for field in self._fields if field.is_used(pod)]
        return _rejection(f"pod uses {' and '.join(used)}", self.name) if used else None


class _ScoringStandIn(_StandIn, PreScorePlugin, ScorePlugin):
    """The same for a plugin that also scores, so that profiles can give it a weight; all nodes are alike to it."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return Status.skip()

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        return np.zeros(len(nodes), dtype=np.int64)


class VolumeRestrictions(_StandIn):
    """Keep the place of the plugin that looks after disks which only one pod may use."""


class NodeVolumeLimits(_StandIn):
    """Keep the place of the plugin that counts the volumes attached to a node."""


class VolumeBinding(_ScoringStandIn):
    """Keep the place of the plugin that finds or provisions volumes for claims."""

    args_type = VolumeBindingArgs


class VolumeZone(_StandIn):
    """Keep the place of the plugin that keeps pods in the zone of their volumes."""


class GangScheduling(_StandIn):
    """Keep the place of the plugin that starts the pods of a `spec.schedulingGroup` together."""
