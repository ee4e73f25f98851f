"""Validate the args of kube-scheduler's own plugins, with the error messages of kube-scheduler."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kube_objects.durations import format_duration
from kube_objects.names import label_key_errors
from kube_objects.node_selectors import compile_node_selector
from pyscheduler.api import NodeSelector, TopologySpreadConstraint
from pyscheduler.config.problems import Path, Problem, duplicate, forbidden, invalid, required, unsupported
from pyscheduler.framework.in_tree_args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

__all__ = ["args_problems"]

_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_DEFAULTING: Final = ("System", "List")
_WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_HIGHEST_SHAPE_SCORE: Final = 10
#: The label key after the path of a bad label value, which is no step of the path: `values[0][zone]: Invalid ...`.
_LABEL_KEY: Final = re.compile(r"(?<=\])\[.*\](?=: Invalid value: )", re.DOTALL)

_Gates: TypeAlias = Mapping[str, bool]


def args_problems(path: Path, args: object, gates: _Gates) -> Iterator[Problem]:
    """Yield the mistakes in `args`, which are at `path`; args of other plugins are not checked."""
    check = _CHECKS.get(type(args))
    return check(path, args, gates) if check is not None else iter(())


def _default_preemption(path: Path, args: DefaultPreemptionArgs, _: _Gates) -> Iterator[Problem]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path = (*path, "minCandidateNodesPercentage")
    absolute_path = (*path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == 0 and absolute == 0:
        yield invalid(percentage_path, percentage, "cannot be zero at the same time as minCandidateNodesAbsolute")
        yield invalid(absolute_path, absolute, "cannot be zero at the same time as minCandidateNodesPercentage")


def _dynamic_resources(path: Path, args: DynamicResourcesArgs, gates: _Gates) -> Iterator[Problem]:
    filtering, binding = args.filter_timeout_seconds, args.binding_timeout_seconds
    if filtering is not None:
        here = (*path, "filterTimeout")
        if not gates["DRASchedulerFilterTimeout"]:
            yield forbidden(here, "DRASchedulingFilterTimeout feature gate is disabled")
        elif filtering < 0:
            yield invalid(here, format_duration(filtering), "must be zero or positive")
    if binding is not None:
        here = (*path, "bindingTimeout")
        if not (gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]):
            text = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            yield forbidden(here, text)
        elif binding < 1:
            yield invalid(here, format_duration(binding), "must be at least 1 second")


def _inter_pod_affinity(path: Path, args: InterPodAffinityArgs, _: _Gates) -> Iterator[Problem]:
    weight = args.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        yield invalid((*path, "hardPodAffinityWeight"), weight, "not in valid range [0, 100]")


def _node_affinity(path: Path, args: NodeAffinityArgs, _: _Gates) -> Iterator[Problem]:
    affinity = args.added_affinity
    if affinity is None:
        return
    required_terms = affinity.required_during_scheduling_ignored_during_execution
    if required_terms is not None:
        here = (*path, "addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        for error in compile_node_selector(required_terms).errors:
            yield _selector_problem(here, error)
    for index, term in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        if term.weight:
            here = (*path, "addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution", index, "preference")
            selector = NodeSelector(node_selector_terms=(term.preference,))
            for error in compile_node_selector(selector).errors:
                yield _selector_problem(here, error.removeprefix("nodeSelectorTerms[0]."))


def _selector_problem(path: Path, error: str) -> Problem:
    """Convert an error of a selector, whose text begins with a path inside the selector, to a problem."""
    where, _, message = _LABEL_KEY.sub("", error, count=1).partition(": ")
    steps = (int(step) if step.isdigit() else step for step in re.findall(r"\w+", where))
    return Problem((*path, *steps), message)


def _balanced_allocation(path: Path, args: NodeResourcesBalancedAllocationArgs, _: _Gates) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        here = (*path, "resources", index)
        if resource.name in seen:
            yield duplicate((*here, "name"), resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid((*here, "weight"), resource.weight, "must be 1")


def _fit(path: Path, args: NodeResourcesFitArgs, _: _Gates) -> Iterator[Problem]:
    for index, name in enumerate(args.ignored_resources):
        yield from _label_name((*path, "ignoredResources", index), name)
    for index, group in enumerate(args.ignored_resource_groups):
        here = (*path, "ignoredResourceGroups", index)
        if "/" in group:
            yield invalid(here, group, "resource group name can't contain '/'")
        yield from _label_name(here, group)
    yield from _strategy((*path, "scoringStrategy"), args.scoring_strategy)


def _strategy(path: Path, strategy: ScoringStrategy) -> Iterator[Problem]:
    if strategy.type not in _STRATEGIES:
        yield unsupported((*path, "type"), strategy.type, _STRATEGIES)
    for index, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            text = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid((*path, "resources", index, "weight"), resource.weight, text)
    ratio = strategy.requested_to_capacity_ratio
    here = (*path, "requestedToCapacityRatio")
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            yield required(here, "must be specified when type is RequestedToCapacityRatio")
        else:
            yield from _shape((*here, "shape"), ratio.shape)
    elif ratio is not None:
        yield forbidden(here, "must be nil when type is not RequestedToCapacityRatio")


def _shape(path: Path, shape: Sequence[UtilizationShapePoint]) -> Iterator[Problem]:
    if not shape:
        yield required(path, "at least one point must be specified")
    for index, (before, point) in enumerate(itertools.pairwise(shape), start=1):
        if before.utilization >= point.utilization:
            yield invalid((*path, index, "utilization"), point.utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid((*path, index, "utilization"), point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= _HIGHEST_SHAPE_SCORE:
            text = f"not in valid range [0, {_HIGHEST_SHAPE_SCORE}]"
            yield invalid((*path, index, "score"), point.score, text)


def _topology_spread(path: Path, args: PodTopologySpreadArgs, _: _Gates) -> Iterator[Problem]:
    here = (*path, "defaultingType")
    if args.defaulting_type not in _DEFAULTING:
        yield unsupported(here, args.defaulting_type, _DEFAULTING)
    elif args.defaulting_type == "System" and args.default_constraints:
        yield invalid(here, args.defaulting_type, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        here = (*path, "defaultConstraints", index)
        yield from _constraint(here, constraint)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            yield duplicate(here, f"{{{', '.join(key)}}}")
        seen.add(key)


def _constraint(path: Path, constraint: TopologySpreadConstraint) -> Iterator[Problem]:
    if constraint.max_skew <= 0:
        yield invalid((*path, "maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required((*path, "topologyKey"), "can not be empty")
    else:
        yield from _label_name((*path, "topologyKey"), constraint.topology_key)
    action = constraint.when_unsatisfiable
    if not action:
        yield required((*path, "whenUnsatisfiable"), "can not be empty")
    elif action not in _WHEN_UNSATISFIABLE:
        yield unsupported((*path, "whenUnsatisfiable"), action, _WHEN_UNSATISFIABLE)
    if constraint.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden((*path, "labelSelector"), text)


def _volume_binding(path: Path, args: VolumeBindingArgs, gates: _Gates) -> Iterator[Problem]:
    if args.bind_timeout_seconds < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid((*path, "bindTimeoutSeconds"), args.bind_timeout_seconds, text)
    here = (*path, "shape")
    if gates["StorageCapacityScoring"]:
        yield from _shape(here, args.shape or ())
    elif args.shape is not None:
        shape = [{"Utilization": point.utilization, "Score": point.score} for point in args.shape]
        text = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid(here, shape, text)


def _label_name(path: Path, name: str) -> Iterator[Problem]:
    for error in label_key_errors(name):
        yield invalid(path, name, error)


_CHECKS: Final[Mapping[type, Callable[[Path, Any, _Gates], Iterator[Problem]]]] = {
    DefaultPreemptionArgs: _default_preemption,
    DynamicResourcesArgs: _dynamic_resources,
    InterPodAffinityArgs: _inter_pod_affinity,
    NodeAffinityArgs: _node_affinity,
    NodeResourcesBalancedAllocationArgs: _balanced_allocation,
    NodeResourcesFitArgs: _fit,
    PodTopologySpreadArgs: _topology_spread,
    VolumeBindingArgs: _volume_binding,
}
