"""Bad values in args of kube-scheduler's plugins are refused in its words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.config.feature_gates import parse

ARGS = "$.profiles[0].pluginConfig[0].args"
NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
STRATEGIES = 'supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
NO_SHAPE = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"


@pytest.mark.parametrize(
    ("plugin", "args", "problems"),
    [
        pytest.param("DefaultPreemption", "{minCandidateNodesPercentage: 0}", [], id="preemption, absolute only"),
        pytest.param("DefaultPreemption", "{minCandidateNodesAbsolute: 0}", [], id="preemption, percentage only"),
        pytest.param(
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
            [
                "Invalid value: 101: not in valid range [0, 100] .minCandidateNodesPercentage",
                "Invalid value: -1: not in valid range [0, inf) .minCandidateNodesAbsolute",
            ],
            id="preemption, out of range",
        ),
        pytest.param(
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            [
                (
                    "Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute "
                    ".minCandidateNodesPercentage"
                ),
                (
                    "Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage "
                    ".minCandidateNodesAbsolute"
                ),
            ],
            id="preemption, none",
        ),
        pytest.param("DynamicResources", "{filterTimeout: 0s, bindingTimeout: 1s}", [], id="devices, lowest"),
        pytest.param(
            "DynamicResources",
            "{filterTimeout: -1ms, bindingTimeout: 999ms}",
            [
                'Invalid value: "-1ms": must be zero or positive .filterTimeout',
                'Invalid value: "999ms": must be at least 1 second .bindingTimeout',
            ],
            id="devices, too low",
        ),
        pytest.param("InterPodAffinity", "{hardPodAffinityWeight: 100}", [], id="affinity, highest"),
        pytest.param(
            "InterPodAffinity",
            "{hardPodAffinityWeight: 101}",
            ["Invalid value: 101: not in valid range [0, 100] .hardPodAffinityWeight"],
            id="affinity, too high",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu}, {name: memory, weight: 2}, {name: cpu}]}",
            [
                "Invalid value: 2: must be 1 .resources[1].weight",
                'Duplicate value: "cpu" .resources[2].name',
            ],
            id="balance",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{ignoredResources: [example.com/a, '*'], ignoredResourceGroups: [example.com, 'a/b', '-']}",
            [
                f'Invalid value: "*": {NAME} .ignoredResources[1]',
                "Invalid value: \"a/b\": resource group name can't contain '/' .ignoredResourceGroups[1]",
                f'Invalid value: "-": {NAME} .ignoredResourceGroups[2]',
            ],
            id="fit, ignored",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {type: Most, resources: [{name: cpu, weight: 100}, {name: x, weight: 101},"
            " {name: z, weight: -1}]}}",
            [
                f'Unsupported value: "Most": {STRATEGIES} .scoringStrategy.type',
                (
                    "Invalid value: 101: resource weight of x not in valid range (0, 100] "
                    ".scoringStrategy.resources[1].weight"
                ),
                (
                    "Invalid value: -1: resource weight of z not in valid range (0, 100] "
                    ".scoringStrategy.resources[2].weight"
                ),
            ],
            id="fit, strategy",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}",
            [
                (
                    "Forbidden: must be nil when type is not RequestedToCapacityRatio "
                    ".scoringStrategy.requestedToCapacityRatio"
                )
            ],
            id="fit, a shape too many",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            [
                (
                    "Required value: must be specified when type is RequestedToCapacityRatio "
                    ".scoringStrategy.requestedToCapacityRatio"
                )
            ],
            id="fit, a shape too few",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}}",
            ["Required value: at least one point must be specified .scoringStrategy.requestedToCapacityRatio.shape"],
            id="fit, no points",
        ),
        pytest.param(
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape:"
            " [{utilization: 10, score: 11}, {utilization: 10}, {utilization: 5}, {utilization: 101, score: -1}]}}}",
            [
                (
                    "Invalid value: 10: values must be sorted in increasing order "
                    ".scoringStrategy.requestedToCapacityRatio.shape[1].utilization"
                ),
                (
                    "Invalid value: 11: not in valid range [0, 10] "
                    ".scoringStrategy.requestedToCapacityRatio.shape[0].score"
                ),
                (
                    "Invalid value: 101: not in valid range [0, 100] "
                    ".scoringStrategy.requestedToCapacityRatio.shape[3].utilization"
                ),
                (
                    "Invalid value: -1: not in valid range [0, 10] "
                    ".scoringStrategy.requestedToCapacityRatio.shape[3].score"
                ),
            ],
            id="fit, points",
        ),
        pytest.param(
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable:"
            " ScheduleAnyway}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
            [],
            id="spread, fine",
        ),
        pytest.param(
            "PodTopologySpread",
            "{defaultingType: Listed}",
            ['Unsupported value: "Listed": supported values: "System", "List" .defaultingType'],
            id="spread, type",
        ),
        pytest.param(
            "PodTopologySpread",
            "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
            ['Invalid value: "System": when .defaultConstraints are not empty .defaultingType'],
            id="spread, system and constraints",
        ),
        pytest.param(
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{}, {maxSkew: -1, topologyKey: a b, whenUnsatisfiable: Never,"
            " labelSelector: {}}, {maxSkew: 1, topologyKey: a b, whenUnsatisfiable: Never}]}",
            [
                "Invalid value: 0: not in valid range (0, inf) .defaultConstraints[0].maxSkew",
                "Required value: can not be empty .defaultConstraints[0].topologyKey",
                "Required value: can not be empty .defaultConstraints[0].whenUnsatisfiable",
                "Invalid value: -1: not in valid range (0, inf) .defaultConstraints[1].maxSkew",
                f'Invalid value: "a b": {NAME} .defaultConstraints[1].topologyKey',
                (
                    'Unsupported value: "Never": supported values: "DoNotSchedule", "ScheduleAnyway" '
                    ".defaultConstraints[1].whenUnsatisfiable"
                ),
                (
                    "Forbidden: constraint must not define a selector, as they deduced for each pod "
                    ".defaultConstraints[1].labelSelector"
                ),
                f'Invalid value: "a b": {NAME} .defaultConstraints[2].topologyKey',
                (
                    'Unsupported value: "Never": supported values: "DoNotSchedule", "ScheduleAnyway" '
                    ".defaultConstraints[2].whenUnsatisfiable"
                ),
                'Duplicate value: "{a b, Never}" .defaultConstraints[2]',
            ],
            id="spread, constraints",
        ),
        pytest.param(
            "VolumeBinding",
            "{bindTimeoutSeconds: -1}",
            ["Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value .bindTimeoutSeconds"],
            id="volumes, timeout",
        ),
        pytest.param(
            "VolumeBinding",
            "{shape: [{utilization: 5}]}",
            [f'Invalid value: [{{"Utilization":5,"Score":0}}]: {NO_SHAPE} .shape'],
            id="volumes, shape",
        ),
        pytest.param(
            "VolumeBinding", "{shape: []}", [f"Invalid value: []: {NO_SHAPE} .shape"], id="volumes, no points"
        ),
        pytest.param(
            "NodeAffinity",
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{},"
            " {matchExpressions: [{key: zone, operator: In}, {key: a b, operator: Exists},"
            " {key: example.com/x, operator: In, values: ['*']}],"
            " matchFields: [{key: metadata.name, operator: Gt}]}]}}}",
            [
                (
                    "Invalid value: []: for 'in', 'notin' operators, values set can't be empty "
                    ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"
                    ".matchExpressions[0].values"
                ),
                (
                    f'Invalid value: "a b": {NAME} '
                    ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"
                    ".matchExpressions[1].key"
                ),
                (
                    'Invalid value: "*": a valid label must be an empty string or consist of alphanumeric characters, '
                    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
                    "'my_value',  or '12345', regex used for validation is "
                    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?') "
                    ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"
                    ".matchExpressions[2].values[0]"
                ),
                (
                    'Unsupported value: "Gt": supported values: "In", "NotIn" '
                    ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"
                    ".matchFields[0].operator"
                ),
            ],
            id="node affinity, required",
        ),
        pytest.param(
            "NodeAffinity",
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions:"
            " [{key: 'a]b', operator: In, values: ['" + "v" * 64 + "']}]}]}}}",
            [
                (
                    f'Invalid value: "a]b": {NAME} '
                    ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
                    ".matchExpressions[0].key"
                ),
                (
                    f'Invalid value: "{"v" * 64}": must be no more than 63 bytes '
                    ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
                    ".matchExpressions[0].values[0]"
                ),
            ],
            id="node affinity, a key with a bracket",
        ),
        pytest.param(
            "NodeAffinity",
            "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference:"
            " {matchExpressions: [{key: x, operator: Nope}]}},"
            " {weight: 1, preference: {matchExpressions: [{key: x, operator: Nope}]}}]}}",
            [
                (
                    'Unsupported value: "Nope": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt" '
                    ".addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].preference"
                    ".matchExpressions[0].operator"
                ),
            ],
            id="node affinity, preferred; what weighs nothing is not looked at",
        ),
    ],
)
def test_bad_args_are_refused(
    problems_in: Callable[[str], list[str]], plugin: str, args: str, problems: list[str]
) -> None:
    """With kube-scheduler's wording; each expected line ends in its path below the args."""
    found = problems_in(f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]")
    assert [problem.replace(f"@ {ARGS}", "") for problem in found] == problems


@pytest.mark.parametrize(
    ("gates", "plugin", "args", "problems"),
    [
        pytest.param(
            "DRASchedulerFilterTimeout=false",
            "DynamicResources",
            "{filterTimeout: 1s, bindingTimeout: 5s}",
            [f"Forbidden: DRASchedulingFilterTimeout feature gate is disabled @ {ARGS}.filterTimeout"],
            id="filter timeout off",
        ),
        pytest.param(
            "DRADeviceBindingConditions=false",
            "DynamicResources",
            "{filterTimeout: 1s, bindingTimeout: 5s}",
            [
                (
                    "Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled "
                    f"@ {ARGS}.bindingTimeout"
                )
            ],
            id="binding conditions off",
        ),
        pytest.param("StorageCapacityScoring=true", "VolumeBinding", "{}", [], id="shape, default"),
        pytest.param(
            "StorageCapacityScoring=true",
            "VolumeBinding",
            "{shape: [{utilization: 0, score: 11}]}",
            [f"Invalid value: 11: not in valid range [0, 10] @ {ARGS}.shape[0].score"],
            id="shape, checked",
        ),
    ],
)
def test_fields_need_their_feature_gates(
    problems_in: Callable[..., list[str]], gates: str, plugin: str, args: str, problems: list[str]
) -> None:
    """A field of a feature that is off must not be given."""
    text = f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"
    assert problems_in(text, gates=parse(gates)) == problems
