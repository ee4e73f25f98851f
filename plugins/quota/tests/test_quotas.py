"""ResourceQuotas: names of resources, what a pod uses, scopes, and what exceeds a limit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api import ResourceQuota, decode
from pyscheduler.testing import make_pod
from pyscheduler_quota.quotas import PodTraits, Quota, declared_amounts, exceeded, pod_usage

NANO = 10**9


def read(**parts: Any) -> Quota:
    """Return a quota."""
    return Quota.of(decode(ResourceQuota, msgspec.json.encode({"metadata": {"name": "q"}, **parts})))


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        pytest.param({"cpu": "2"}, {"cpu", "requests.cpu"}, id="cpu"),
        pytest.param({"requests.memory": "2"}, {"memory", "requests.memory"}, id="with prefix"),
        pytest.param({"nvidia.com/gpu": 2}, {"nvidia.com/gpu", "requests.nvidia.com/gpu"}, id="extended"),
        pytest.param({"requests.nvidia.com/gpu": 2}, {"requests.nvidia.com/gpu"}, id="extended with prefix"),
        pytest.param({"limits.cpu": "2"}, {"limits.cpu"}, id="limits"),
        pytest.param({"pods": "2"}, {"pods", "count/pods"}, id="pods"),
        pytest.param({"count/pods": "2"}, {"pods", "count/pods"}, id="count of pods"),
        pytest.param({"cpu": "two", "memory": "-1", "pods": 0}, set(), id="unusable and nothing"),
    ],
)
def test_declared_amounts_have_all_names_that_quotas_use(declared: Any, names: set[str]) -> None:
    """Quotas limit requests with or without prefix, extended resources with it only, and pods in two ways."""
    assert declared_amounts(declared) == dict.fromkeys(names, 2 * NANO)


def test_pod_uses_requests_limits_and_one_pod() -> None:
    """CPU in thousandths and memory in bytes become billionths of a unit; extended resources have no limits."""
    limits = {"cpu": "2", "nvidia.com/gpu": "1"}
    container = {"name": "c", "resources": {"requests": {"cpu": "1500m", "nvidia.com/gpu": "1"}, "limits": limits}}
    pod = make_pod("p", spec={"containers": [container]})
    assert pod_usage(pod) == {
        "pods": NANO,
        "count/pods": NANO,
        "cpu": 3 * NANO // 2,
        "requests.cpu": 3 * NANO // 2,
        "nvidia.com/gpu": NANO,
        "requests.nvidia.com/gpu": NANO,
        "limits.cpu": 2 * NANO,
    }


def test_pod_whose_amounts_are_malformed_uses_a_pod() -> None:
    """The API server refuses such pods, so their amounts do not matter."""
    pod = make_pod("p", spec={"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]})
    assert pod_usage(pod) == {"pods": NANO, "count/pods": NANO}


def test_only_named_and_requested_resources_exceed() -> None:
    """All that is taken counts together; a limit may be reached but not exceeded."""
    hard, used = {"cpu": 4, "memory": 1}, {"cpu": 1, "memory": 2}
    assert exceeded({"cpu": 2, "disk": 9}, hard, used, {"cpu": 1}) == []
    assert exceeded({"cpu": 2, "disk": 9}, hard, used, {"cpu": 2}) == ["cpu"]
    assert exceeded({"memory": 0}, hard, used) == ["memory"], "as Volcano: the quota is exceeded already"


CROSS = "CrossNamespacePodAffinity"
TERM = {"topologyKey": "zone", "labelSelector": {}}
AWAY = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**TERM, "namespaces": ["other"]}]}}
PREFERS = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {**TERM, "namespaceSelector": {}}}
        ]
    }
}


@pytest.mark.parametrize(
    ("spec", "scopes"),
    [
        pytest.param({}, {"NotTerminating", "BestEffort"}, id="plain"),
        pytest.param({"activeDeadlineSeconds": 0}, {"Terminating", "BestEffort"}, id="deadline"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"memory": "1"}}}]},
            {"NotTerminating", "NotBestEffort"},
            id="limits",
        ),
        pytest.param(
            {"priorityClassName": "high"}, {"NotTerminating", "BestEffort", "PriorityClass"}, id="priority class"
        ),
        pytest.param({"affinity": AWAY}, {"NotTerminating", "BestEffort", "CrossNamespacePodAffinity"}, id="affinity"),
        pytest.param(
            {"affinity": PREFERS}, {"NotTerminating", "BestEffort", "CrossNamespacePodAffinity"}, id="prefers"
        ),
    ],
)
def test_scopes_select_pods(spec: dict[str, Any], scopes: set[str]) -> None:
    """A quota with a scope counts the pods that have it, as Kubernetes does; none with an unknown scope."""
    pod = make_pod("p", spec=spec)
    known = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass")
    found = {scope for scope in (*known, CROSS, "Unknown") if read(spec={"scopes": [scope]}).counts(PodTraits.of(pod))}
    assert found == scopes


@pytest.mark.parametrize(
    ("operator", "values", "counted"),
    [
        pytest.param("In", ["high", "low"], {"high"}, id="in"),
        pytest.param("NotIn", ["high"], {"other", ""}, id="not in"),
        pytest.param("Exists", [], {"high", "other"}, id="exists"),
        pytest.param("DoesNotExist", [], {""}, id="does not exist"),
    ],
)
def test_scope_selector_compares_the_priority_class(operator: str, values: list[str], counted: set[str]) -> None:
    """All four operators, and pods without a class."""
    term = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    quota = read(spec={"scopeSelector": {"matchExpressions": [term]}})
    assert {name for name in ("high", "other", "") if quota.counts(PodTraits(priority_class=name))} == counted


def test_limit_that_cannot_be_read_limits_nothing() -> None:
    """The rest of the quota counts."""
    quota = read(status={"hard": {"cpu": "many", "pods": "3"}, "used": {"pods": "1"}})
    assert (quota.hard, quota.used) == ({"pods": 3 * NANO}, {"pods": NANO})
