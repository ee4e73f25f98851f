"""`explain` for operators whose credentials lack some kinds, and with the ClusterRole of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_testserver.test_server import TestServer
from pyscheduler.testing import node_manifest, pod_manifest
from tests.cli.conftest import Run, explain_as

Object = dict[str, Any]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/why-a-pod-waits.md"
RBAC = "rbac.authorization.k8s.io"
NO_DEVICES = "0/1 nodes are available: 1 cannot allocate all claims."
NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."
#: By configuration, how a pod names the group `g`; the pod is called like the configuration.
GROUPS: dict[str, Object] = {
    "default": {},
    "in-tree-gang": {},
    "coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    "gang": {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
    "batch-kai": {"annotations": {"pod-group-name": "g"}},
    "batch-volcano": {"annotations": {"scheduling.k8s.io/group-name": "g"}},
    "batch-kube-batch": {"annotations": {"scheduling.k8s.io/group-name": "g"}},
}


def account(name: str, rules: list[Object]) -> list[Object]:
    """Return a service account with a ClusterRole for the whole cluster."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "subjects": [subject],
            "roleRef": role,
        },
    ]


def documented() -> list[Object]:
    """Return the rules of the ClusterRole of the documentation."""
    text = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (role,) = (one for one in map(yaml.safe_load, text) if one.get("kind") == "ClusterRole")
    rules: list[Object] = role["rules"]
    return rules


def scheduler_name(config: str) -> str:
    """Return the first schedulerName of an example configuration."""
    return str(yaml.safe_load((ROOT / f"configs/{config}.yaml").read_text())["profiles"][0]["schedulerName"])


def definition(group: str, version: str, kind: str, *, is_namespaced: bool) -> Object:
    """Return the CustomResourceDefinition of a kind with any fields."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced" if is_namespaced else "Cluster",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def waiting(name: str, message: str = "", *, claim: str = "", **spec: Any) -> Object:
    """Return a pod without a node; with a message it has the condition PodScheduled, with a claim it uses that."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = pod_manifest(name, status={"conditions": [condition]} if message else None, **spec)
    if claim:
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return pod


def objects() -> list[Object]:
    """Return a node without devices, the accounts, and pods that wait."""
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "fpga", "count": 1}}]}},
    }
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "fpga"}, "spec": {}}
    few = {"apiGroups": [""], "resources": ["pods", "nodes", "namespaces"], "verbs": ["get", "list"]}
    claims = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["list"]}
    made = [
        node_manifest("n1", allocatable={"cpu": "1"}),
        device_class,
        claim,
        *account("poor", [few, claims]),
        *account("operator", documented()),
        waiting("devices", NO_DEVICES, claim="one"),
        waiting("unseen", claim="one"),
        waiting("cpu", NO_CPU, requests={"cpu": "4"}),
    ]
    kai = {"apiGroups": ["scheduling.run.ai"], "resources": ["queues", "podgroups"], "verbs": ["list"]}
    made += account("partial", [few, claims, kai])
    made += account("nobody", [])
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    queue = {"resources": {"cpu": free, "memory": free, "gpu": free}}
    for kind, version, name, spec in (
        ("Queue", "v2", "team", queue),
        ("PodGroup", "v2alpha2", "job", {"minMember": 1, "queue": "team"}),
    ):
        metadata = {"name": name} | ({"namespace": "default"} if kind == "PodGroup" else {})
        made.append(definition("scheduling.run.ai", version, kind, is_namespaced="namespace" in metadata))
        made.append({"apiVersion": f"scheduling.run.ai/{version}", "kind": kind, "metadata": metadata, "spec": spec})
    job = waiting("job-0", NO_DEVICES, claim="one", scheduler_name=scheduler_name("batch-kai"))
    job["metadata"]["annotations"] = {"pod-group-name": "job"}
    made.append(job)
    for config, metadata in GROUPS.items():
        pod = waiting(config, NO_CPU if metadata else "", scheduler_name=scheduler_name(config))
        pod["metadata"] |= metadata
        made.append(pod)
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    """Serve the cluster over HTTP."""
    file = tmp_path_factory.mktemp("unread") / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects()))
    with TestServer(authorization="rbac", controllers=False, lifecycle=False, load=[file]) as running:
        yield running


@pytest.fixture
def explain(server: TestServer, run: Run, tmp_path: Path, no_leader: None) -> Run:
    """Return a function that runs `explain` as an account; there is no leader."""
    return explain_as(server, run, tmp_path, "default")


def test_rejection_for_an_unlisted_kind_is_unknown(explain: Run) -> None:
    """The condition decides; the message that an object does not exist would be untrue."""
    code, out, err = explain("poor", "devices")
    assert code == 0, err
    assert "Verdict: waits: Unschedulable" in out
    assert "does not exist" not in out
    assert "unknown: these credentials may not list" in out
    assert "deviceclasses.resource.k8s.io" in out
    assert f"PodScheduled is False: Unschedulable: {NO_DEVICES}" in out
    assert "Next: a sure answer needs credentials that may list" in out
    assert "may not list deviceclasses.resource.k8s.io; what depends on them is unknown" in err


def test_verdict_is_unknown_without_a_condition(explain: Run) -> None:
    """Nothing is known of a pod that no scheduler has tried, if its plugins lack a kind."""
    code, out, err = explain("poor", "unseen")
    assert code == 0, err
    assert "Verdict: unknown " in out
    assert "does not exist" not in out


def test_certain_rejection_stays_the_verdict(explain: Run) -> None:
    """A plugin that reads only nodes and pods is as sure as ever."""
    code, out, err = explain("poor", "cpu")
    assert code == 0, err
    assert "Verdict: waits: Unschedulable" in out
    assert "4 cpu; most free 1 on n1" in out
    assert "unknown" not in out


@pytest.mark.parametrize("config", [name for name, metadata in GROUPS.items() if metadata])
def test_group_that_may_not_be_listed_is_not_missing(explain: Run, config: str) -> None:
    """The step of the group or job is unknown, and the condition is the verdict."""
    code, out, err = explain("poor", config, "--config", ROOT / f"configs/{config}.yaml")
    assert code == 0, err
    assert "Verdict: waits: Unschedulable" in out
    assert "does not exist" not in out
    assert "DoesNotExist" not in out
    assert re.search(r"(job|group) unknown - unknown: these credentials may not list podgroups\.", out), out
    assert f"PodScheduled is False: Unschedulable: {NO_CPU}" in out


def test_job_is_not_held_by_an_unlisted_kind(explain: Run) -> None:
    """The job itself is known; that its device class is missing is not."""
    code, out, err = explain("partial", "job-0", "--config", ROOT / "configs/batch-kai.yaml")
    assert code == 0, err
    assert "Verdict: waits: Unschedulable" in out
    assert "does not exist" not in out
    assert "queue ok" in out
    assert "nodes unknown - unknown: these credentials may not list" in out
    assert f"PodScheduled is False: Unschedulable: {NO_DEVICES}" in out


def test_explain_of_a_job_takes_no_unlisted_kind_as_absent(explain: Run) -> None:
    """`explain job`, as `kubectl queue explain`: groups and queues are unknown, and so is a class of devices."""
    kai = ("--config", ROOT / "configs/batch-kai.yaml")
    code, out, err = explain("poor", "job", "job", *kai)
    assert code == 0, err
    assert "Verdict: unknown Steps:" in out
    assert "DoesNotExist" not in out
    assert "unknown: these credentials may not list podgroups.scheduling.run.ai, queues.scheduling.run.ai" in out
    code, out, err = explain("partial", "job", "job", *kai)
    assert code == 0, err
    assert "Verdict: unknown Steps:" in out
    assert "queue ok" in out
    assert "nodes unknown - unknown: these credentials may not list resourceslices.resource.k8s.io, deviceclass" in out
    code, _, err = explain("poor", "job", "none", *kai)
    assert code == 1
    assert "absent" not in err
    assert "job default/none is not known: these credentials may not list podgroups" in err
    code, _, err = explain("nobody", "job", "job", *kai)
    assert (code, "`pyscheduler explain POD` needs only the permission to get the pod" in err) == (1, True)


@pytest.mark.parametrize("config", GROUPS)
def test_documented_role_reads_everything(explain: Run, config: str) -> None:
    """With the ClusterRole of the documentation, nothing is missing for any of these profiles."""
    _, out, err = explain("operator", config, "--config", ROOT / f"configs/{config}.yaml")
    assert "Verdict: " in out, err
    assert "may not list" not in out + err


def test_documented_role_reads_workloads_and_the_lease(explain: Run) -> None:
    """Workloads and their events are listed only to look a workload up; the lease is read to find the leader."""
    code, _, err = explain("operator", "deployment/none")
    assert (code, err) == (1, "error: Deployment default/none does not exist\n")
    code, _, err = explain("operator", "none")
    assert (code, "pod default/none does not exist" in err, "may not list" in err) == (1, True, False)
    events = [rule for rule in documented() if "events" in rule.get("resources", ())]
    assert [rule["apiGroups"] for rule in events] == [[""]]
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    assert lease in documented()
