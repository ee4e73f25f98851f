"""What is shown is what kube-scheduler shows, and reads back as what it was."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import yaml

from pyscheduler.config.dump import dump, encode, to_data, to_json
from pyscheduler.config.feature_gates import parse
from pyscheduler.config.load import default_configuration, loads
from pyscheduler.framework.plugin_args import Duration, Quantity

RECORDED = Path(__file__).with_name("configz.json").read_text(encoding="utf-8")


def test_default_equals_kube_schedulers_output(config_text: Callable[[str], str]) -> None:
    """Every key, in its order, with its value; the lease alone is called otherwise, and is told to be."""
    config = loads(
        config_text("""
            leaderElection: {leaderElect: false, resourceName: kube-scheduler}
            clientConnection: {qps: 5000, burst: 5000}
        """)
    )
    # Compared as text, because the order of keys counts.
    recorded = json.dumps(json.loads(RECORDED))
    assert json.dumps(json.loads(to_json(config))) == recorded
    assert json.dumps({"componentconfig": yaml.safe_load(dump(config))}) == recorded


def test_deliberate_differences_in_the_default() -> None:
    """The lease, the name of the profile; and the limits, which the recorded program was given."""
    ours, theirs = to_data(default_configuration()), json.loads(RECORDED)["componentconfig"]
    assert ours["leaderElection"] == theirs["leaderElection"] | {"leaderElect": True, "resourceName": "pyscheduler"}
    assert ours["clientConnection"] == theirs["clientConnection"] | {"qps": 50, "burst": 100}
    ours["profiles"][0]["schedulerName"] = "default-scheduler"  # type: ignore[index]  # plain values
    assert {key for key in ours | theirs if ours[key] != theirs[key]} == {"leaderElection", "clientConnection"}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(
            "leaderElection: {leaseDuration: 90s, renewDeadline: 1m, retryPeriod: 1500ms}",
            ["  leaseDuration: 1m30s", "  renewDeadline: 1m0s", "  retryPeriod: 1.5s"],
            id="durations as Go shows them",
        ),
        pytest.param("clientConnection: {qps: 0.5}", ["  qps: 0.5"], id="a fraction"),
        pytest.param("clientConnection: {qps: -1}", ["  qps: -1"], id="a whole number"),
        pytest.param("enableProfiling: false", ["enableProfiling: false", "enableContentionProfiling: false"], id="no"),
        pytest.param("profiles: [{percentageOfNodesToScore: 0}]", ["  percentageOfNodesToScore: 0"], id="a set zero"),
        pytest.param("delayCacheUntilActive: true", ["delayCacheUntilActive: true"], id="delayCacheUntilActive"),
        pytest.param("profiles: [{schedulerName: 'y'}]", ["- schedulerName: 'y'"], id="text that looks like a boolean"),
        pytest.param(
            "profiles: [{schedulerName: '1e3'}]", ["- schedulerName: '1e3'"], id="text that looks like a number"
        ),
        pytest.param("profiles: [{schedulerName: äöü}]", ["- schedulerName: äöü"], id="letters of the world"),
    ],
)
def test_values_are_shown_as_go_shows_them(config_text: Callable[[str], str], text: str, lines: list[str]) -> None:
    """In YAML that Go's library reads as it was meant."""
    shown = dump(loads(config_text(text))).splitlines()
    assert [line for line in lines if line not in shown] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(
            "{name: NodeResourcesFit, args: {ignoredResources: [a], scoringStrategy: {type: RequestedToCapacityRatio,"
            " requestedToCapacityRatio: {shape: [{utilization: 0}]}}}}",
            {
                "kind": "NodeResourcesFitArgs",
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "ignoredResources": ["a"],
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                    "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}]},
                },
            },
            id="fit",
        ),
        pytest.param(
            "{name: NodeAffinity, args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution:"
            " [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}}",
            {
                "kind": "NodeAffinityArgs",
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "addedAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                    ]
                },
            },
            id="node affinity",
        ),
        pytest.param(
            "{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {},"
            " preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}, {}]}}}",
            {
                "kind": "NodeAffinityArgs",
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": None},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {}},
                        {"weight": 0, "preference": {}},
                    ],
                },
            },
            id="node affinity with nothing in it",
        ),
        pytest.param(
            "{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: z,"
            " whenUnsatisfiable: DoNotSchedule, minDomains: 2}]}}",
            {
                "kind": "PodTopologySpreadArgs",
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
                ],
                "defaultingType": "List",
            },
            id="spread",
        ),
        pytest.param(
            "{name: Mine, args: {kind: MineArgs, z: [1, {b: 1.0}], a: null}}",
            {"kind": "MineArgs", "z": [1, {"b": 1}], "a": None},
            id="others, as they are",
        ),
        pytest.param("{name: Mine}", None, id="others, none"),
    ],
)
def test_args_are_shown(config_text: Callable[[str], str], text: str, shown: object) -> None:
    """With kind and version where they are kube-scheduler's, keys in its order, nothing empty."""
    config = loads(config_text(f"profiles: [{{pluginConfig: [{text}]}}]"))
    args = to_data(config)["profiles"][0]["pluginConfig"][0]["args"]  # type: ignore[index]  # plain values
    assert json.dumps(args) == json.dumps(shown)


def test_fields_of_disabled_features_are_omitted() -> None:
    """As kube-scheduler does: null for the one, nothing for the other."""
    gates = parse("DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false")
    configs = to_data(default_configuration(gates=gates))["profiles"][0]["pluginConfig"]  # type: ignore[index]  # plain
    (args,) = [config["args"] for config in configs if config["name"] == "DynamicResources"]
    assert args == {
        "kind": "DynamicResourcesArgs",
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "filterTimeout": None,
    }


def test_extenders_are_shown(config_text: Callable[[str], str]) -> None:
    """What is empty is left out, but for the timeout."""
    text = (
        "extenders: [{urlPrefix: u, enableHTTPS: true, tlsConfig: {caData: YQ==}, managedResources: [{name: a.b/c}]}]"
    )
    assert to_data(loads(config_text(text)))["extenders"] == [
        {
            "urlPrefix": "u",
            "enableHTTPS": True,
            "tlsConfig": {"caData": "YQ=="},
            "httpTimeout": "0s",
            "managedResources": [{"name": "a.b/c"}],
        }
    ]


class Color(enum.Enum):
    RED = "red"


@attrs.frozen(kw_only=True)
class MineArgs:
    permit_wait_seconds: Duration = 90.0
    limit_seconds: Duration | None = None
    room: Quantity = Quantity("1.5Gi")  # noqa: RUF009 - immutable
    color: Color = Color.RED
    weights: dict[str, float] = attrs.Factory(lambda: {"a": 1.0, "b": 0.5})
    names: frozenset[str] = frozenset({"x"})


def test_args_of_any_plugin_can_be_shown() -> None:
    """A class of args is shown by the keys that stand for it in a file."""
    assert encode(MineArgs()) == {
        "permitWait": "1m30s",
        "limit": None,
        "room": "1.5Gi",
        "color": "red",
        "weights": {"a": 1, "b": 0.5},
        "names": ["x"],
    }
