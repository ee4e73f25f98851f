"""A file is loaded as kube-scheduler loads it, or refused with a line for every mistake."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import yaml

from pyscheduler.config.load import default_configuration, load, loads
from pyscheduler.config.types import (
    ClientConnection,
    Configuration,
    Extender,
    ExtenderTLS,
    LeaderElection,
    ManagedResource,
    PluginConfig,
)
from pyscheduler.framework import ConfigError
from pyscheduler.framework.in_tree_args import (
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)

VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"


def config_map(**texts: str) -> str:
    """Return a ConfigMap with these texts."""
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": texts})


def test_a_config_map_with_one_key_is_its_text() -> None:
    """The configuration is that of the key, and a mistake names the key and its place in the text."""
    text = f"apiVersion: {VERSION}\nkind: {KIND}\nprofiles: [{{schedulerName: mine, percentageOfNodesToScore: 200}}]\n"
    right = text.replace("200", "20")
    held = loads(config_map(scheduler=right), source="map.yaml")
    assert held.source == "map.yaml, key scheduler"
    assert attrs.evolve(held, source="file") == loads(right, source="file")
    with pytest.raises(ConfigError) as refused:
        loads(config_map(scheduler=text), source="map.yaml")
    assert str(refused.value).startswith("map.yaml, key scheduler: Invalid value: 200: ")
    assert str(refused.value).endswith(" @ $.profiles[0].percentageOfNodesToScore")
    with pytest.raises(ConfigError, match=r"^map.yaml, key scheduler: line 2, column 1: "):
        loads(config_map(scheduler=f"kind: {KIND}\n}}"), source="map.yaml")


def test_a_config_map_with_several_keys_is_refused_in_one_line() -> None:
    """The message names the keys."""
    text = f"apiVersion: {VERSION}\nkind: {KIND}\n"
    with pytest.raises(ConfigError) as refused:
        loads(config_map(a=text, b="other"), source="map.yaml")
    expected = "map.yaml: this ConfigMap has 2 keys: a, b; leave only the one with the configuration @ $.data"
    assert str(refused.value) == expected


# --- what is accepted ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        pytest.param("", {}, id="nothing said"),
        pytest.param("parallelism: 4", {"parallelism": 4}, id="parallelism"),
        pytest.param("parallelism: 4.0", {"parallelism": 4}, id="a float without a fraction"),
        pytest.param("parallelism:", {}, id="null"),
        pytest.param("percentageOfNodesToScore: 30", {"percentage_of_nodes_to_score": 30}, id="percentage"),
        pytest.param(
            "podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 2",
            {"pod_initial_backoff_seconds": 2, "pod_max_backoff_seconds": 2},
            id="backoff",
        ),
        pytest.param("delayCacheUntilActive: true", {"delay_cache_until_active": True}, id="delayCacheUntilActive"),
        pytest.param(
            "enableProfiling: no",
            {"enable_profiling": False, "enable_contention_profiling": False},
            id="no profiling, so no contention profiling",
        ),
        pytest.param("enableContentionProfiling: false", {"enable_contention_profiling": False}, id="profiling only"),
        pytest.param(
            "leaderElection: {leaderElect: off, leaseDuration: 1m30s, renewDeadline: 60s, retryPeriod: 500ms,"
            " resourceName: other, resourceNamespace: ns}",
            {
                "leader_election": LeaderElection(
                    leader_elect=False,
                    lease_duration_seconds=90,
                    renew_deadline_seconds=60,
                    retry_period_seconds=0.5,
                    resource_name="other",
                    resource_namespace="ns",
                )
            },
            id="leader election",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 0s, resourceLock: '', resourceName: '', resourceNamespace: ''}",
            {"leader_election": LeaderElection()},
            id="leader election, zeros are unset",
        ),
        pytest.param(
            "clientConnection: {kubeconfig: /k, qps: 0.5, burst: 7, acceptContentTypes: a, contentType: b}",
            {
                "client_connection": ClientConnection(
                    kubeconfig="/k", qps=0.5, burst=7, accept_content_types="a", content_type="b"
                )
            },
            id="client connection",
        ),
        pytest.param("clientConnection: {qps: 0, burst: 0, contentType: ''}", {}, id="client connection, zeros"),
        pytest.param(
            "clientConnection: {qps: -1}", {"client_connection": ClientConnection(qps=-1)}, id="no limit of requests"
        ),
        pytest.param(
            "extenders: [{urlPrefix: 'http://x', filterVerb: f, preemptVerb: e, prioritizeVerb: p, weight: 2,"
            " bindVerb: b, enableHTTPS: yes, httpTimeout: 5s, nodeCacheCapable: on, ignorable: true,"
            " tlsConfig: {insecure: true, serverName: s, certFile: c, keyFile: k, caFile: a, certData: YQ==},"
            " managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]}]",
            {
                "extenders": (
                    Extender(
                        url_prefix="http://x",
                        filter_verb="f",
                        preempt_verb="e",
                        prioritize_verb="p",
                        weight=2,
                        bind_verb="b",
                        enable_https=True,
                        http_timeout_seconds=5,
                        node_cache_capable=True,
                        ignorable=True,
                        tls_config=ExtenderTLS(
                            insecure=True, server_name="s", cert_file="c", key_file="k", ca_file="a", cert_data=b"a"
                        ),
                        managed_resources=(ManagedResource(name="example.com/gpu", ignored_by_scheduler=True),),
                    ),
                )
            },
            id="extenders",
        ),
    ],
)
def test_settings_are_read(config_text: Callable[[str], str], text: str, changes: dict[str, object]) -> None:
    """What a file says is taken, and what it does not say has its default."""
    silent = loads(config_text(""))
    assert loads(config_text(text)) == attrs.evolve(silent, **changes)  # type: ignore[arg-type]  # a row per setting


def test_empty_file_gets_kube_schedulers_defaults(config_text: Callable[[str], str]) -> None:
    """But for the name of the lease."""
    config = loads(config_text(""))
    assert attrs.evolve(config, profiles=()) == Configuration(
        parallelism=16,
        leader_election=LeaderElection(
            leader_elect=True,
            lease_duration_seconds=15,
            renew_deadline_seconds=10,
            retry_period_seconds=2,
            resource_lock="leases",
            resource_name="pyscheduler",
            resource_namespace="kube-system",
        ),
        client_connection=ClientConnection(qps=50, burst=100, content_type="application/vnd.kubernetes.protobuf"),
        enable_profiling=True,
        enable_contention_profiling=True,
        percentage_of_nodes_to_score=0,
        pod_initial_backoff_seconds=1,
        pod_max_backoff_seconds=10,
        extenders=(),
        delay_cache_until_active=False,
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("", ["default-scheduler"], id="silent"),
        pytest.param("profiles:", ["default-scheduler"], id="null"),
        pytest.param("profiles: []", ["default-scheduler"], id="none"),
        pytest.param("profiles: [null]", ["default-scheduler"], id="a null profile"),
        pytest.param("profiles: [{}]", ["default-scheduler"], id="without a name"),
        pytest.param("profiles: [{schedulerName: null}]", ["default-scheduler"], id="a null name"),
        pytest.param("profiles: [{schedulerName: mine}]", ["mine"], id="with a name"),
        pytest.param("profiles: [{schedulerName: a}, {schedulerName: b}]", ["a", "b"], id="two"),
    ],
)
def test_single_profile_needs_no_name(config_text: Callable[[str], str], text: str, names: list[str]) -> None:
    """It is `default-scheduler` then, as in kube-scheduler."""
    assert [profile.scheduler_name for profile in loads(config_text(text)).profiles] == names


def test_without_a_file_the_profile_is_named_pyscheduler() -> None:
    """So that it can stand beside kube-scheduler; everything else is as in a silent file."""
    config = load(None)
    assert config == default_configuration()
    assert [profile.scheduler_name for profile in config.profiles] == ["pyscheduler"]
    silent = loads(f"apiVersion: {VERSION}\nkind: {KIND}")
    assert attrs.evolve(silent, profiles=()) == attrs.evolve(config, profiles=())


def test_args_of_in_tree_plugins_are_typed(config_text: Callable[[str], str]) -> None:
    """Those of others stay as they are in the file."""
    config = loads(
        config_text("""
            profiles:
            - pluginConfig:
              - name: DefaultPreemption
                args:
                  apiVersion: kubescheduler.config.k8s.io/v1
                  kind: DefaultPreemptionArgs
                  minCandidateNodesPercentage: 0
              - name: InterPodAffinity
                args: {ignorePreferredTermsOfExistingPods: true, hardPodAffinityWeight: 0}
              - name: NodeResourcesFit
                args:
                  ignoredResources: [foo]
                  scoringStrategy:
                    type: RequestedToCapacityRatio
                    requestedToCapacityRatio: {shape: [{utilization: 0}, {utilization: 100, score: 10}]}
              - name: NodeResourcesBalancedAllocation
                args: {resources: [{name: cpu}, {name: memory, weight: 0}, {name: example.com/x, weight: 1}]}
              - name: Mine
                args: {kind: MineArgs, deep: [{a: 1}]}
              - name: Yours
        """)
    )
    assert config.profiles[0].plugin_config[:6] == (
        PluginConfig(name="DefaultPreemption", args=DefaultPreemptionArgs(min_candidate_nodes_percentage=0)),
        PluginConfig(
            name="InterPodAffinity",
            args=InterPodAffinityArgs(hard_pod_affinity_weight=0, ignore_preferred_terms_of_existing_pods=True),
        ),
        PluginConfig(
            name="NodeResourcesFit",
            args=NodeResourcesFitArgs(
                ignored_resources=("foo",),
                scoring_strategy=ScoringStrategy(
                    type="RequestedToCapacityRatio",
                    resources=(ResourceSpec("cpu"), ResourceSpec("memory")),
                    requested_to_capacity_ratio=RequestedToCapacityRatio(
                        shape=(UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10))
                    ),
                ),
            ),
        ),
        PluginConfig(
            name="NodeResourcesBalancedAllocation",
            args=NodeResourcesBalancedAllocationArgs(
                resources=(ResourceSpec("cpu"), ResourceSpec("memory"), ResourceSpec("example.com/x"))
            ),
        ),
        PluginConfig(name="Mine", args={"kind": "MineArgs", "deep": [{"a": 1}]}),
        PluginConfig(name="Yours", args=None),
    )


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", f"the file is empty; a configuration begins with apiVersion: {VERSION}", id="empty"),
        pytest.param(b"# a\n", f"the file is empty; a configuration begins with apiVersion: {VERSION}", id="comments"),
        pytest.param(b"- a", f"expected a {KIND}, found a list @ $", id="a list"),
        pytest.param(b"hello", f'expected a {KIND}, found "hello" @ $', id="a word"),
        pytest.param(b"a: 1\nb: \xff", "line 2: not UTF-8 text", id="not UTF-8"),
        pytest.param(
            b"\x7fELF\x02\x01\x00\x00", "line 1, column 1: control characters are not allowed", id="a program"
        ),
        pytest.param(
            b"a:\n  b: 1\n c: 2",
            "line 3, column 2: did not find expected key (while parsing a block mapping)",
            id="not YAML",
        ),
    ],
)
def test_files_with_other_content_are_rejected_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    """The line names the file."""
    path = tmp_path / "profile.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: {message}"


def test_files_that_cannot_be_read_are_refused_in_one_line(tmp_path: Path) -> None:
    """A missing file, a folder, and a folder that is a file."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "none.yaml")
    assert str(caught.value) == f"{tmp_path / 'none.yaml'}: no such file or directory"
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path))
    assert str(caught.value) == f"{tmp_path}: is a directory"
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"not a directory$"):
        load(tmp_path / "file" / "profile.yaml")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    path = tmp_path / "profile.yaml"
    path.write_text(f"apiVersion: {VERSION}\r\nkind: {KIND}\r\nparallelism: 3\r\n", encoding="utf-8-sig")
    config = load(path)
    assert (config.parallelism, config.source) == (3, str(path))


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            f"kind: {KIND}",
            [f"Object 'apiVersion' is missing; write apiVersion: {VERSION} @ $.apiVersion"],
            id="no version",
        ),
        pytest.param(
            f"apiVersion: {VERSION}", [f"Object 'kind' is missing; write kind: {KIND} @ $.kind"], id="no kind"
        ),
        pytest.param(
            "parallelism: 1",
            [
                f"Object 'kind' is missing; write kind: {KIND} @ $.kind",
                f"Object 'apiVersion' is missing; write apiVersion: {VERSION} @ $.apiVersion",
            ],
            id="neither",
        ),
        pytest.param(
            f"apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: {KIND}\nfoo: 1",
            [
                (
                    f'no kind "{KIND}" is registered for version "kubescheduler.config.k8s.io/v1beta3"; '
                    f"write apiVersion: {VERSION} @ $.apiVersion"
                )
            ],
            id="an older version",
        ),
        pytest.param(
            f"apiVersion: componentconfig/v1alpha1\nkind: {KIND}",
            [
                (
                    f'no kind "{KIND}" is registered for version "componentconfig/v1alpha1"; '
                    f"write apiVersion: {VERSION} @ $.apiVersion"
                )
            ],
            id="a much older version",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod",
            [f'no kind "Pod" is registered for version "v1"; write apiVersion: {VERSION} @ $.apiVersion'],
            id="a pod",
        ),
        pytest.param(
            f"apiVersion: {VERSION}\nkind: SchedulerConfiguration",
            [f'no kind "SchedulerConfiguration" is registered for version "{VERSION}"; write kind: {KIND} @ $.kind'],
            id="another kind",
        ),
        pytest.param(
            f"apiVersion: {VERSION}\nkind: NodeAffinityArgs",
            [f"couldn't decode as {KIND}, got {VERSION}, Kind=NodeAffinityArgs @ $.kind"],
            id="a kind of the same group",
        ),
        pytest.param(
            f"apiVersion: 1\nkind: {KIND}", [f"expected {VERSION}, found 1 @ $.apiVersion"], id="a number as version"
        ),
    ],
)
def test_other_kinds_and_versions_are_refused(text: str, problems: list[str]) -> None:
    """Nothing else is said about a file that is something else."""
    with pytest.raises(ConfigError) as caught:
        loads(text)
    assert list(caught.value.problems) == problems


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param("foo: bar", ['unknown field "foo" @ $.foo'], id="unknown at the top"),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeAffinity, args: {kind: Foo, apiVersion: v1}}]}]",
            [
                (
                    "args for plugin NodeAffinity were not of type NodeAffinityArgs.kubescheduler.config.k8s.io, "
                    "got Foo.kubescheduler.config.k8s.io @ $.profiles[0].pluginConfig[0].args.kind"
                ),
                'no kind "Foo" is registered for version "v1" @ $.profiles[0].pluginConfig[0].args.apiVersion',
            ],
            id="args of another kind and version",
        ),
        pytest.param(
            "Parallelism: 1", ['unknown field "Parallelism", did you mean "parallelism"? @ $.Parallelism'], id="case"
        ),
        pytest.param(
            "profiles: [{plugins: {score: {enabled: [{name: A, wieght: 2}]}}}]",
            ['unknown field "wieght", did you mean "weight"? @ $.profiles[0].plugins.score.enabled[0].wieght'],
            id="unknown in a plugin",
        ),
        pytest.param(
            "profiles: [{plugins: {scores: {}}}]",
            ['unknown field "scores", did you mean "score"? @ $.profiles[0].plugins.scores'],
            id="unknown extension point",
        ),
        pytest.param(
            "profiles: [{plugins: {score: {enabled: [{name: A, weight: '2'}]}}}]",
            ['expected an integer, found the string "2" @ $.profiles[0].plugins.score.enabled[0].weight'],
            id="a weight in quotes",
        ),
        pytest.param(
            "profiles: [{plugins: {score: {enabled: [A]}}}]",
            ['expected a mapping, found the string "A" @ $.profiles[0].plugins.score.enabled[0]'],
            id="a bare name",
        ),
        pytest.param(
            "profiles: [{schedulerName: yes}]",
            ["expected a string, found true, put it in quotes @ $.profiles[0].schedulerName"],
            id="a name that is a boolean",
        ),
        pytest.param("profiles: {}", ["expected a list, found a mapping @ $.profiles"], id="profiles is no list"),
        pytest.param("profiles: [1]", ["expected a mapping, found 1 @ $.profiles[0]"], id="a profile is no mapping"),
        pytest.param(
            "leaderElection: {leaderElect: 'true', leaseDuration: 15, retryPeriod: 2}",
            [
                'expected true or false, found the string "true" @ $.leaderElection.leaderElect',
                'expected a duration such as "15s" or "1m30s", found 15 @ $.leaderElection.leaseDuration',
                'expected a duration such as "15s" or "1m30s", found 2 @ $.leaderElection.retryPeriod',
            ],
            id="durations without units",
        ),
        pytest.param(
            "clientConnection: {qps: fast, burst: 1.5, contenttype: x}",
            [
                'expected a number, found the string "fast" @ $.clientConnection.qps',
                "expected an integer, found 1.5 @ $.clientConnection.burst",
                'unknown field "contenttype", did you mean "contentType"? @ $.clientConnection.contenttype',
            ],
            id="client connection",
        ),
        pytest.param("clientConnection: {qps: .inf}", ["unsupported value: .inf @ $.clientConnection.qps"], id="inf"),
        pytest.param(
            "parallelism: 3000000000", ["3000000000 does not fit an integer of 32 bits @ $.parallelism"], id="32 bits"
        ),
        pytest.param(
            "leaderElection: {leaderElect: true}\nleaderElection: {}",
            ['line 4: key "leaderElection" already set @ $.leaderElection'],
            id="twice",
        ),
        pytest.param(
            "extenders: [{enableHttps: true, tlsConfig: {caData: '*'}}]",
            [
                'unknown field "enableHttps", did you mean "enableHTTPS"? @ $.extenders[0].enableHttps',
                "illegal base64 data @ $.extenders[0].tlsConfig.caData",
            ],
            id="extender",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{Name: cpu,"
            " Weight: 1}]}}}, {name: Mine, args: [1]}, {name: 7}]}]",
            [
                (
                    'unknown field "Name", did you mean "name"? '
                    "@ $.profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].Name"
                ),
                (
                    'unknown field "Weight", did you mean "weight"? '
                    "@ $.profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].Weight"
                ),
                "expected a mapping, found a list @ $.profiles[0].pluginConfig[1].args",
                "expected a string, found 7, put it in quotes @ $.profiles[0].pluginConfig[2].name",
                # Without its type, the strategy is checked like any other.
                (
                    'Unsupported value: "": supported values: '
                    '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio" '
                    "@ $.profiles[0].pluginConfig[0].args.scoringStrategy.type"
                ),
            ],
            id="args",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeAffinity, args: {kind: InterPodAffinityArgs}}]}]",
            [
                (
                    "args for plugin NodeAffinity were not of type NodeAffinityArgs.kubescheduler.config.k8s.io, "
                    "got InterPodAffinityArgs.kubescheduler.config.k8s.io @ $.profiles[0].pluginConfig[0].args.kind"
                )
            ],
            id="args of another plugin",
        ),
    ],
)
def test_files_are_read_strictly(problems_in: Callable[[str], list[str]], text: str, problems: list[str]) -> None:
    """Unknown fields, wrong types and repeated keys, each with its path."""
    assert problems_in(text) == problems


def test_every_kind_of_mistake_is_reported_at_once(config_text: Callable[[str], str]) -> None:
    """One error, one line per mistake; what has the wrong type gets no second line about its value."""
    text = config_text("""
        parallelism: "16"
        parallelism: 0
        podInitialBackoffSeconds: 20
        podMaxBackoffSeconds: ten
        percentageOfNodesToScore: 101
        profiles:
        - schedulerName: a
          plugins: {score: {enabled: [{name: A, weight: x}, {name: ''}]}}
        - schedulerName: a
          shedulerName: b
    """)
    with pytest.raises(ConfigError) as caught:
        loads(text, source="profile.yaml")
    assert str(caught.value).splitlines() == [
        f"profile.yaml: {line}"
        for line in [
            'line 5: key "parallelism" already set @ $.parallelism',
            'expected an integer, found the string "16" @ $.parallelism',
            'expected an integer, found the string "ten" @ $.podMaxBackoffSeconds',
            'expected an integer, found the string "x" @ $.profiles[0].plugins.score.enabled[0].weight',
            'unknown field "shedulerName", did you mean "schedulerName"? @ $.profiles[1].shedulerName',
            "Invalid value: 101: not in valid range [0-100] @ $.percentageOfNodesToScore",
            "Required value @ $.profiles[0].plugins.score.enabled[1].name",
            'Duplicate value: "a": it is that of $.profiles[0].schedulerName @ $.profiles[1].schedulerName',
        ]
    ]


def test_a_file_of_another_scheduler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no distribution reads other forms."""
    monkeypatch.setattr(sys, "path", [each for each in sys.path if "site-packages" not in each])
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if "editable" not in repr(each).lower()])
    for text in ("actions: allocate", "apiVersion: kai.scheduler/v1\nkind: SchedulingShard"):
        with pytest.raises(ConfigError, match=r"pip install 'kube-pyscheduler\[batch\]'"):
            loads(text)
