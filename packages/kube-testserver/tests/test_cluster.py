"""The embedded cluster as its users meet it: filling it, looking into it, putting it on a port."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from kube_objects.errors import APIError, ConfigError
from kube_testserver.cluster import EmbeddedCluster

MANIFESTS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {capacity: {cpu: "4"}}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: p1, namespace: made}
  spec:
    nodeName: n1
    containers: [{name: c, image: i}]
  status: {phase: Running}
- apiVersion: v1
  kind: Pod
  metadata: {name: p2}
  spec: {containers: [{name: c, image: i}]}
---
"""


def test_a_cluster_begins_with_what_every_cluster_has(cluster: EmbeddedCluster) -> None:
    """The usual namespaces and priority classes are there."""
    names = [obj["metadata"]["name"] for obj in cluster.objects("v1", "Namespace")]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    classes = {
        obj["metadata"]["name"]: obj["value"] for obj in cluster.objects("scheduling.k8s.io/v1", "PriorityClass")
    }
    assert classes == {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def test_manifests_of_a_running_cluster_can_be_loaded_whole(cluster: EmbeddedCluster) -> None:
    """Lists are opened, namespaces made, and status and node are kept."""
    loaded = cluster.load(MANIFESTS)
    assert [obj["metadata"]["name"] for obj in loaded] == ["n1", "p1", "p2"]
    [pod] = cluster.pods(namespace="made")
    assert (pod["spec"]["nodeName"], pod["status"]["phase"], pod["status"]["qosClass"]) == (
        "n1",
        "Running",
        "BestEffort",
    )
    assert cluster.get("v1", "Pod", "p2")["status"]["phase"] == "Pending"
    assert [node["metadata"]["name"] for node in cluster.nodes()] == ["n1"]
    assert len(cluster.pods()) == 2


def test_manifests_printed_by_another_server_can_be_loaded(cluster: EmbeddedCluster, pod: Any) -> None:
    """Versions are made anew, namespaces may come last, and what every server has is left as it is."""
    there = EmbeddedCluster(clock=cluster.clock)
    there.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "made", "labels": {"team": "a"}}})
    placed = pod("p", nodeName="n1")
    placed["metadata"]["namespace"] = "made"
    there.add(placed)
    printed = [
        *there.pods(namespace="made"),
        *there.objects("v1", "Namespace"),
        *there.objects("scheduling.k8s.io/v1", "PriorityClass"),
        *there.objects("v1", "ServiceAccount"),
    ]
    loaded = cluster.load(json.dumps({"apiVersion": "v1", "kind": "List", "items": printed}))
    assert [obj["metadata"]["name"] for obj in loaded] == ["made", "p"]
    assert cluster.get("v1", "Namespace", "made")["metadata"]["labels"]["team"] == "a"
    [bound] = cluster.pods(namespace="made")
    assert (bound["metadata"]["name"], bound["spec"]["nodeName"]) == ("p", "n1")
    with pytest.raises(APIError, match='pods "p" already exists'):
        cluster.load(json.dumps(printed[0]))


def test_accounts_do_not_change_the_uids_of_a_seed(clock: Any) -> None:
    """The account of a namespace draws nothing: a seed gives the same uids after an account came back."""
    one, other = (EmbeddedCluster(clock=clock, rng=random.Random(3)) for _ in range(2))
    before = other.get("v1", "ServiceAccount", "default", namespace="default")["metadata"]["uid"]
    other.remove("v1", "ServiceAccount", "default", namespace="default")
    assert other.get("v1", "ServiceAccount", "default", namespace="default")["metadata"]["uid"] != before
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert one.add(node)[0]["metadata"]["uid"] == other.add(node)[0]["metadata"]["uid"]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("1.36.0", ("1", "36", "1", "35", "v1.36.0+testserver")),
        ("1.35", ("1", "35", "1", "34", "v1.35.0+testserver")),
        ("v1.34.7", ("1", "34", "1", "33", "v1.34.7+testserver")),
    ],
)
async def test_release_that_version_names(clock: Any, api_of: Any, release: str, expected: tuple[str, ...]) -> None:
    """Clients that check the server's version find the release that the cluster was made with, by default 1.36."""
    api = api_of(EmbeddedCluster(clock=clock, release=release))
    served = await api.ok("GET", "/version")
    names = ("major", "minor", "minCompatibilityMajor", "minCompatibilityMinor", "gitVersion")
    assert tuple(served[name] for name in names) == expected
    if release == "1.36.0":
        assert served == await api_of(EmbeddedCluster(clock=clock)).ok("GET", "/version")


def test_release_has_to_be_one(clock: Any) -> None:
    """Any other text is refused when the cluster is made."""
    with pytest.raises(ConfigError, match=r'"latest" is no Kubernetes release; write one like "1\.36\.0"'):
        EmbeddedCluster(clock=clock, release="latest")


def test_json_is_loaded_without_the_detour_over_yaml(cluster: EmbeddedCluster) -> None:
    """A large JSON List loads fast: ten thousand objects are a matter of a second, not of a minute."""
    items = ",".join(
        f'{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n{index}","annotations":{{"tab":"a\\tb"}}}}}}'
        for index in range(500)
    )
    assert len(cluster.load(f' {{"apiVersion":"v1","kind":"List","items":[{items}]}}')) == 500
    assert cluster.get("v1", "Node", "n0")["metadata"]["annotations"] == {"tab": "a\tb"}
    [flow] = cluster.load("{apiVersion: v1, kind: Node, metadata: {name: flow}}")  # YAML that begins like JSON
    assert flow["metadata"]["name"] == "flow"


def test_patch_does_not_change_its_input(cluster: EmbeddedCluster, pod: Any) -> None:
    """Adding an object leaves the caller's own as it was."""
    manifest = {**pod("p"), "status": {"phase": "Running"}}
    cluster.add(manifest)
    assert manifest == {**pod("p"), "status": {"phase": "Running"}}


def test_objects_are_removed(cluster: EmbeddedCluster, pod: Any) -> None:
    """At once by default; with their own grace when asked for."""
    cluster.add(pod("p", nodeName="n"), pod("q", nodeName="n"))
    cluster.remove("v1", "Pod", "p")
    cluster.remove("v1", "Pod", "q", grace_seconds=None)
    [left] = cluster.pods()
    assert left["metadata"]["deletionGracePeriodSeconds"] == 30
    with pytest.raises(APIError, match='pods "p" not found'):
        cluster.remove("v1", "Pod", "p")


def test_events_can_be_added_in_either_view(cluster: EmbeddedCluster) -> None:
    """An object comes back in the view that was asked for."""
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"namespace": "default"},
        "message": "m",
    }
    cluster.add(event)
    assert cluster.get("events.k8s.io/v1", "Event", "e")["note"] == "m"


def test_broken_objects_can_be_planted(cluster: EmbeddedCluster) -> None:
    """What no server lets in can be put there for a test, and is listed like anything else."""
    broken = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": "nonsense"}
    assert cluster.plant(broken)["spec"] == "nonsense"
    assert cluster.nodes()[0]["spec"] == "nonsense"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        pytest.param("{apiVersion: v1, kind: Thing}", ConfigError, "v1 Thing is not served", id="unknown kind"),
        pytest.param("a: [", APIError, "error converting YAML to JSON", id="no YAML"),
        pytest.param("a: !!int x", APIError, "error converting YAML to JSON: invalid literal", id="tag"),
        pytest.param("a: " + "9" * 5000, APIError, "error converting YAML to JSON: Exceeds the limit", id="digits"),
        pytest.param("- 1", APIError, "a YAML document holds list, not an object", id="no object"),
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {name: p}}", APIError, "spec.containers: Required", id="bad"
        ),
    ],
)
def test_manifests_that_cannot_be_loaded(cluster: EmbeddedCluster, text: str, error: Any, words: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(error, match=words.replace("[", r"\[")) as refusal:
        cluster.load(text)
    assert "\n" not in str(refusal.value)


def test_equal_seeds_make_equal_clusters(clock: Any, pod: Any) -> None:
    """Uids and names come from the seeded source."""
    made = [EmbeddedCluster(clock=clock, rng=random.Random(3)) for _ in range(2)]
    first, second = ([*one.add(pod("", generateName="g-")), *one.objects("v1", "Namespace")] for one in made)
    assert first == second
