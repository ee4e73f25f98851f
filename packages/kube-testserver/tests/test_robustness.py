"""Whatever a client sends, it gets an answer: never an exception, never a store that contradicts itself."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.requests import Request
from kube_testserver.serving.watching import WatchStream

DEFAULT = "/api/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

#: Names that mean something somewhere, so that nonsense gets past the first check.
WORDS = """
    metadata name namespace labels annotations finalizers generateName uid resourceVersion ownerReferences
    spec containers image resources requests limits cpu tolerations affinity podAffinity topologySpreadConstraints
    matchLabelKeys labelSelector requiredDuringSchedulingIgnoredDuringExecution podAffinityTerm schedulingGates ports
    status conditions type phase capacity allocatable nodeInfo taints target kind apiVersion preconditions
    gracePeriodSeconds involvedObject regarding eventTime series group names plural versions schema openAPIV3Schema
    properties selector matchExpressions deleteOptions op path value $patch $setElementOrder/containers $retainKeys
"""
NAMES = st.sampled_from(WORDS.split())
LEAVES = (
    st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from(["", "a", "p", "1", "Pod", "Node", "/spec", "add"])
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=5).map(
    lambda drawn: (
        {**drawn, "metadata": {"name": "a", **drawn["metadata"]}} if isinstance(drawn.get("metadata"), dict) else drawn
    )
)
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)

CUSTOM = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            }
        ],
    },
}


def make_cluster() -> EmbeddedCluster:
    """Return a cluster with something of everything that requests can be about."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1))
    container = {"name": "c", "image": "i"}
    cluster.add(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "p"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}},
        CUSTOM,
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "p"}},
    )
    return cluster


def check(cluster: EmbeddedCluster, request: Request) -> None:
    """Send a request; there has to be an answer that a client can read."""
    answer = cluster.router.answer(request)
    if isinstance(answer, WatchStream):
        answer.close()
        return
    if answer.headers["content-type"] == "application/json":
        body: Any = msgspec.json.decode(answer.body)
        if answer.status >= 400:
            assert (body["kind"], body["code"]) == ("Status", answer.status)
            assert "\n" not in body["message"] or body["message"].startswith(("Apply failed", "failed to create typed"))
    cluster.check_invariants()


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "path",
    [
        f"{DEFAULT}/pods",
        f"{DEFAULT}/events",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/api/v1/persistentvolumes",
        f"{DEFAULT}/persistentvolumeclaims",
        f"{DEFAULT}/bindings",
        f"{DEFAULT}/pods/p/binding",
        f"{DEFAULT}/pods/p/eviction",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        "/apis/apps/v1/namespaces/default/replicasets",
        "/apis/example.com/v1/namespaces/default/things",
        CRDS,
    ],
)
async def test_any_object_posted_anywhere(path: str) -> None:
    """Nonsense in the shape of an object is refused or stored, wherever it is posted."""

    @given(OBJECTS | JSON)
    def post(body: Any) -> None:
        cluster = make_cluster()
        check(cluster, Request("POST", path, body=msgspec.json.encode(body)))
        check(cluster, Request("GET", path.removesuffix("/binding").removesuffix("/eviction")))

    post()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("content_type", PATCH_TYPES)
@pytest.mark.parametrize(
    "path",
    [
        f"{DEFAULT}/pods/p",
        "/api/v1/nodes/p",
        f"{DEFAULT}/pods/p/status",
        f"{DEFAULT}/pods/p/resize",
        CRDS + "/things.example.com",
    ],
)
async def test_any_patch_of_anything(path: str, content_type: str) -> None:
    """Nonsense in the shape of a patch is refused or applied."""

    @given(st.lists(OBJECTS, max_size=3) | OBJECTS)
    def patch(body: Any) -> None:
        raw, cluster = msgspec.json.encode(body), make_cluster()
        check(cluster, Request("PATCH", path, body=raw, content_type=content_type))
        check(cluster, Request("PATCH", f"{path}x", body=raw, content_type=content_type))

    patch()


@pytest.mark.slow
async def test_any_put_and_any_delete_options() -> None:
    """Nonsense replaces nothing it should not, and deletes in no way it should not."""

    @given(OBJECTS, st.sampled_from(["PUT", "DELETE"]), st.sampled_from(["pods/p", "pods/p/status"]))
    def send(body: Any, method: str, path: str) -> None:
        check(make_cluster(), Request(method, f"{DEFAULT}/{path}", body=msgspec.json.encode(body)))

    send()


async def test_any_bytes_and_any_query() -> None:
    """Bytes that are nothing at all, paths and queries made up on the spot."""
    words = (
        "watch limit continue resourceVersion resourceVersionMatch labelSelector fieldSelector timeoutSeconds "
        "sendInitialEvents allowWatchBookmarks gracePeriodSeconds dryRun includeObject"
    )
    keys = st.sampled_from(words.split())
    values = st.text(max_size=8) | st.sampled_from(["1", "true", "0", "Exact", "NotOlderThan", "a=b", "a in (b)"])
    parts = st.sampled_from(
        ["api", "apis", "v1", "pods", "namespaces", "default", "p", "status", "nodes", "", "x", "~"]
    )

    @given(
        st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]),
        st.lists(parts, max_size=7).map("/".join),
        st.dictionaries(keys, values, max_size=3),
        st.binary(max_size=12),
        st.sampled_from(["", "application/json", "application/yaml", *PATCH_TYPES]),
        st.sampled_from(["", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "a;b=c;d"]),
    )
    def send(method: str, path: str, query: dict[str, str], body: bytes, content_type: str, accept: str) -> None:
        check(make_cluster(), Request(method, f"/{path}", query, body, content_type, accept))

    send()
