"""The args of kube-scheduler's own plugins, as attrs classes (see `plugin_args`).

Source: kube-scheduler 1.36, `kubescheduler.config.k8s.io/v1`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import NodeAffinity, TopologySpreadConstraint  # noqa: TC001 - read at run time, to fill the args
from pyscheduler.framework.plugin_args import Duration, Int32, wire

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "IN_TREE_ARGS",
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "InterPodAffinityArgs",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "PodTopologySpreadArgs",
    "RequestedToCapacityRatio",
    "ResourceSpec",
    "ScoringStrategy",
    "UtilizationShapePoint",
    "VolumeBindingArgs",
]


@attrs.frozen(kw_only=True)
class DefaultPreemptionArgs:
    """The number of nodes that a preemption looks at: at least the larger of a percentage and an absolute number.

    `protect_quorum`, which kube-scheduler does not have: a victim that takes a group of pods below its minimum counts
    as one that a disruption budget protects.
    """

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100
    protect_quorum: bool = attrs.field(default=False, metadata=wire(omit_empty=True))


@attrs.frozen(kw_only=True)
class DynamicResourcesArgs:
    """The time limits of device allocation: per node while filtering (0: no limit), and in all while binding."""

    filter_timeout_seconds: Duration | None = 10.0
    binding_timeout_seconds: Duration | None = attrs.field(default=600.0, metadata=wire(omit_empty=True))


@attrs.frozen(kw_only=True)
class InterPodAffinityArgs:
    """The weight of a running pod's demand for neighbours, for the pod that meets it (0..100)."""

    hard_pod_affinity_weight: Int32 = 1
    #: Leave the preferences of running pods out, unless the pod has inter-pod affinities itself.
    ignore_preferred_terms_of_existing_pods: bool = False


@attrs.frozen(kw_only=True)
class NodeAffinityArgs:
    """Node affinity that every pod of the profile has besides its own."""

    added_affinity: NodeAffinity | None = attrs.field(default=None, metadata=wire(omit_empty=True))


@attrs.frozen
class ResourceSpec:
    """A resource that counts in a score, and how much."""

    name: str = ""
    weight: int = attrs.field(default=1, metadata=wire(zero_is_unset=True, omit_empty=True))


@attrs.frozen
class UtilizationShapePoint:
    """A point of a scoring function: score (0..10) at a utilisation (0..100 %)."""

    utilization: Int32 = 0
    score: Int32 = 0


_CPU_AND_MEMORY: Final = (ResourceSpec("cpu"), ResourceSpec("memory"))


@attrs.frozen(kw_only=True)
class RequestedToCapacityRatio:
    """The scoring function of that strategy: points in rising utilisation, straight lines between them."""

    shape: tuple[UtilizationShapePoint, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))


@attrs.frozen(kw_only=True)
class ScoringStrategy:
    """The way a node's free room becomes a score: `LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`.

    A file that names a strategy must name its type; there is no default inside it.
    """

    type: str = attrs.field(default="", metadata=wire(omit_empty=True))
    resources: tuple[ResourceSpec, ...] = attrs.field(
        default=_CPU_AND_MEMORY, metadata=wire(zero_is_unset=True, omit_empty=True)
    )
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = attrs.field(
        default=None, metadata=wire(omit_empty=True)
    )


@attrs.frozen(kw_only=True)
class NodeResourcesBalancedAllocationArgs:
    """The resources whose use is to be balanced."""

    resources: tuple[ResourceSpec, ...] = attrs.field(
        default=_CPU_AND_MEMORY, metadata=wire(zero_is_unset=True, omit_empty=True)
    )


@attrs.frozen(kw_only=True)
class NodeResourcesFitArgs:
    """The extended resources that are not filtered (by name, or by the part before the slash), and the scoring."""

    ignored_resources: tuple[str, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))
    ignored_resource_groups: tuple[str, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")


@attrs.frozen(kw_only=True)
class PodTopologySpreadArgs:
    """Spread constraints for pods that have none: Kubernetes' own (`System`) or those listed (`List`)."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))
    defaulting_type: str = attrs.field(default="System", metadata=wire(zero_is_unset=True, omit_empty=True))


@attrs.frozen(kw_only=True)
class VolumeBindingArgs:
    """The time limit for binding volumes, in seconds, and the shape of the score by storage capacity.

    `shape` is None unless given, or where the feature gate StorageCapacityScoring is on.
    """

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | None = attrs.field(default=None, metadata=wire(omit_empty=True))


#: The args class of each of kube-scheduler's plugins that takes args, by the plugin's name.
IN_TREE_ARGS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "DefaultPreemption": DefaultPreemptionArgs,
        "DynamicResources": DynamicResourcesArgs,
        "InterPodAffinity": InterPodAffinityArgs,
        "NodeAffinity": NodeAffinityArgs,
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
        "NodeResourcesFit": NodeResourcesFitArgs,
        "PodTopologySpread": PodTopologySpreadArgs,
        "VolumeBinding": VolumeBindingArgs,
    }
)
