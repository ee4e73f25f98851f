"""Plugins of KAI that need little or no code here.

Some have no effect, and exist only so that configuration files of KAI are valid.

Source: KAI-Scheduler, the plugins of the same names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from pyscheduler_batch.contract import Policy
from pyscheduler_kai.scenario import multi_node, node_local

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyscheduler_kai.scenario import Probe, Scenario

__all__ = [
    "DynamicResources",
    "GpuPack",
    "GpuSharingOrder",
    "GpuSpread",
    "MultiNodeGang",
    "NodeAvailability",
    "NodeLocalGreedy",
    "NominatedNode",
    "Predicates",
    "ReflectJobOrder",
    "ResourceType",
    "ScenarioGenerator",
    "Snapshot",
    "SubGroupOrder",
]


class ScenarioGenerator(Policy, ABC):
    """Propose victims to the evicting actions; generators are asked in the order of the file, each from the start."""

    #: Seconds that a search may spend with it; 0 is unlimited. The argument `maxSearchDuration` overrides it.
    default_seconds: ClassVar[float]

    @property
    def seconds(self) -> float:
        """Return how many seconds a search may spend with this generator; 0 is unlimited."""
        return float(self.arguments.get("maxSearchDuration", self.default_seconds))

    @abstractmethod
    def scenarios(self, probe: Probe) -> Iterator[Scenario | None]:
        """Yield scenarios for a probe, the best first; None now and then while there is none."""


class NodeLocalGreedy(ScenarioGenerator):
    """Propose the victims on one node."""

    name: ClassVar[str] = "sg-nodelocalgreedy"
    default_seconds: ClassVar[float] = 30.0

    def scenarios(self, probe: Probe) -> Iterator[Scenario | None]:
        """Yield scenarios for a probe."""
        return node_local(probe)


class MultiNodeGang(ScenarioGenerator):
    """Propose the victims on the fewest nodes that could hold the pending tasks, then on more."""

    name: ClassVar[str] = "sg-multinodegang"
    default_seconds: ClassVar[float] = 120.0

    def scenarios(self, probe: Probe) -> Iterator[Scenario | None]:
        """Yield scenarios for a probe."""
        return multi_node(probe)


class NodeAvailability(Policy):
    """Prefer nodes on which a task fits right now."""

    name: ClassVar[str] = "nodeavailability"


class ResourceType(Policy):
    """Prefer nodes without GPUs for tasks without GPUs."""

    name: ClassVar[str] = "resourcetype"


class NominatedNode(Policy):
    """Prefer the node that a pod is nominated to."""

    name: ClassVar[str] = "nominatednode"


class SubGroupOrder(Policy):
    """Order sub-groups by how much of their minimum they have; always on."""

    name: ClassVar[str] = "subgrouporder"


class Predicates(Policy):
    """Filter nodes with the filters of the profile; always on."""

    name: ClassVar[str] = "predicates"


class GpuSharingOrder(Policy):
    """Prefer nodes where a shared GPU has room, for pods with a part of a GPU; needs the plugin GpuSharing."""

    name: ClassVar[str] = "gpusharingorder"


class GpuPack(Policy):
    """Fill shared GPUs before others are shared; needs the plugin GpuSharing."""

    name: ClassVar[str] = "gpupack"


class GpuSpread(Policy):
    """Share a GPU of which no pod has a part before others; needs the plugin GpuSharing. No effect beside `gpupack`."""

    name: ClassVar[str] = "gpuspread"


class ReflectJobOrder(Policy):
    """Do nothing: `kubectl queue` shows the order of jobs; KAI's path `/get-job-order` does not exist here."""

    name: ClassVar[str] = "reflectjoborder"


class DynamicResources(Policy):
    """Place no pod whose claim of GPUs lacks the label of its queue; the plugin DynamicResources allocates claims."""

    name: ClassVar[str] = "dynamicresources"


class Snapshot(Policy):
    """Do nothing: KAI's path `/get-snapshot`, which its own tools read, does not exist here."""

    name: ClassVar[str] = "snapshot"
