"""Bad values are refused in kube-scheduler's words, each with its path."""

from __future__ import annotations

from collections.abc import Callable

import pytest

NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            "parallelism: 0",
            ["Invalid value: 0: should be an integer value greater than zero @ $.parallelism"],
            id="parallelism",
        ),
        pytest.param("percentageOfNodesToScore: 0", [], id="percentage, lowest"),
        pytest.param("percentageOfNodesToScore: 100", [], id="percentage, highest"),
        pytest.param(
            "percentageOfNodesToScore: -1\nprofiles: [{percentageOfNodesToScore: 101}]",
            [
                "Invalid value: -1: not in valid range [0-100] @ $.percentageOfNodesToScore",
                "Invalid value: 101: not in valid range [0-100] @ $.profiles[0].percentageOfNodesToScore",
            ],
            id="percentages",
        ),
        pytest.param(
            "podInitialBackoffSeconds: 0",
            ["Invalid value: 0: must be greater than 0 @ $.podInitialBackoffSeconds"],
            id="initial backoff",
        ),
        pytest.param(
            "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 4",
            [
                "Invalid value: 4: must be greater than or equal to PodInitialBackoffSeconds @ $.podMaxBackoffSeconds",
            ],
            id="highest backoff",
        ),
        pytest.param(
            "clientConnection: {burst: -1}",
            ["Invalid value: -1: must be non-negative @ $.clientConnection.burst"],
            id="burst",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: -15s, renewDeadline: -10s, retryPeriod: -1m}",
            [
                'Invalid value: "-15s": must be greater than zero @ $.leaderElection.leaseDuration',
                'Invalid value: "-10s": must be greater than zero @ $.leaderElection.renewDeadline',
                'Invalid value: "-1m0s": must be greater than zero @ $.leaderElection.retryPeriod',
                'Invalid value: "-10s": must be greater than `RenewDeadline` @ $.leaderElection.leaseDuration',
            ],
            id="negative times of the lease",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 10s}",
            ['Invalid value: "10s": must be greater than `RenewDeadline` @ $.leaderElection.leaseDuration'],
            id="a lease that is too short",
        ),
        pytest.param(
            "leaderElection: {resourceLock: endpoints}",
            ['Invalid value: "endpoints": resourceLock value must be "leases" @ $.leaderElection.resourceLock'],
            id="another kind of lock",
        ),
        pytest.param(
            "leaderElection: {leaderElect: false, resourceLock: endpoints, leaseDuration: -1s}",
            [],
            id="nothing is said about a lease that is not used",
        ),
        pytest.param("profiles: [{schedulerName: ''}]", ["Required value @ $.profiles[0].schedulerName"], id="no name"),
        pytest.param(
            "profiles: [{}, {schedulerName: a}]",
            ["Required value @ $.profiles[0].schedulerName"],
            id="no name among several",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: a}]",
            ['Duplicate value: "a": it is that of $.profiles[0].schedulerName @ $.profiles[2].schedulerName'],
            id="one name twice",
        ),
        pytest.param(
            "profiles: [{plugins: {filter: {enabled: [{name: A}, {name: EBSLimits}]}}}]",
            [
                (
                    'Invalid value: "EBSLimits": was invalid in version "v1" '
                    '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1") '
                    "@ $.profiles[0].plugins.filter.enabled[1]"
                )
            ],
            id="a plugin that is gone",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: CinderLimits}]}]",
            [
                (
                    'Invalid value: "CinderLimits": was invalid in version "v1" '
                    '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1") '
                    "@ $.profiles[0].pluginConfig[0]"
                )
            ],
            id="args of a plugin that is gone",
        ),
        pytest.param(
            "profiles: [{plugins: {multiPoint: {enabled: [{weight: 1}], disabled: [{}]}}, pluginConfig: [{args: {}}]}]",
            [
                "Required value @ $.profiles[0].plugins.multiPoint.enabled[0].name",
                "Required value @ $.profiles[0].plugins.multiPoint.disabled[0].name",
                "Required value @ $.profiles[0].pluginConfig[0].name",
            ],
            id="plugins without a name",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: A}, {name: NodeAffinity}, {name: A}, {name: NodeAffinity}]}]",
            [
                'Duplicate value: "A" @ $.profiles[0].pluginConfig[2]',
                'Duplicate value: "NodeAffinity" @ $.profiles[0].pluginConfig[3]',
            ],
            id="args twice",
        ),
        pytest.param(
            "profiles: [{plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}}]",
            ["Invalid value: 2: only one queue sort plugin can be enabled @ $.profiles[0].plugins.queueSort.enabled"],
            id="two queue sorts",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: A}]}}}, {schedulerName: b},"
            " {schedulerName: c, plugins: {queueSort: {enabled: [{name: B}]}}},"
            " {schedulerName: d, plugins: {queueSort: {enabled: [{name: A}]}}}]",
            [
                "Invalid value: []: must be the same for all profiles @ $.profiles[1].plugins.queueSort",
                'Invalid value: ["B"]: must be the same for all profiles @ $.profiles[2].plugins.queueSort',
            ],
            id="queue sorts differ",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, plugins: &p {queueSort: {enabled: [{name: A}]}},"
            " pluginConfig: [{name: A, args: {x: 1}}]},"
            " {schedulerName: b, plugins: *p, pluginConfig: [{name: B}, {name: A, args: {x: 2}}]}]",
            [
                (
                    'Invalid value: {"x":2}: queueSort must be the same for all profiles '
                    "@ $.profiles[1].pluginConfig[1].args"
                )
            ],
            id="queue sort args differ",
        ),
        pytest.param(
            "profiles: [{schedulerName: a, plugins: &p {queueSort: {enabled: [{name: A}]}},"
            " pluginConfig: &c [{name: A, args: {x: 1}}]}, {schedulerName: b, plugins: *p, pluginConfig: *c}]",
            [],
            id="queue sort args are the same",
        ),
        pytest.param(
            "extenders: [{prioritizeVerb: p}, {prioritizeVerb: p, weight: -1}, {prioritizeVerb: p, weight: 1}, {}]",
            [
                "Invalid value: 0: must have a positive weight applied to it @ $.extenders[0].weight",
                "Invalid value: -1: must have a positive weight applied to it @ $.extenders[1].weight",
            ],
            id="extender weights",
        ),
        pytest.param(
            "extenders: [{bindVerb: b}, {bindVerb: b}]",
            [
                (
                    'Invalid value: "found 2 extenders implementing bind": only one extender can implement bind '
                    "@ $.extenders"
                )
            ],
            id="two extenders bind",
        ),
        pytest.param(
            "extenders: [{managedResources: [{name: example.com/a}, {name: cpu}, {name: ''}, {name: 'a/b/c'}]},"
            " {managedResources: [{name: example.com/a}, {name: 'kubernetes.io/x'}]}]",
            [
                'Invalid value: "cpu": is an invalid extended resource name @ $.extenders[0].managedResources[1].name',
                'Invalid value: "": name part must be non-empty @ $.extenders[0].managedResources[2].name',
                f'Invalid value: "": {NAME} @ $.extenders[0].managedResources[2].name',
                (
                    f'Invalid value: "a/b/c": a valid label key {NAME.removeprefix("name part ")} with an optional DNS '
                    "subdomain prefix and '/' (e.g. 'example.com/MyName') @ $.extenders[0].managedResources[3].name"
                ),
                (
                    'Invalid value: "example.com/a": duplicate extender managed resource name '
                    "@ $.extenders[1].managedResources[0].name"
                ),
                (
                    'Invalid value: "kubernetes.io/x": is an invalid extended resource name '
                    "@ $.extenders[1].managedResources[1].name"
                ),
            ],
            id="managed resources",
        ),
    ],
)
def test_bad_values_are_refused(problems_in: Callable[[str], list[str]], text: str, problems: list[str]) -> None:
    """With kube-scheduler's wording, and the path in the file."""
    assert problems_in(text) == problems
