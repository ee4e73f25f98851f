"""Objects are deleted once their owners are gone, in the order that the deletion asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.rules.deletion import DeleteOptions
from kube_testserver.virtual_time import VirtualClock

THINGS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield a cluster with a garbage collector."""
    made = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(4))
    collector = made.garbage_collector()
    collector.start()
    yield made
    collector.stop()
    made.check_invariants()


def thing(name: str, *owners: dict[str, Any], **reference: Any) -> dict[str, Any]:
    """Return a ConfigMap that the given ones own; `reference` has further fields of the references."""
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **reference,
        }
        for owner in owners
    ]
    metadata = {"name": name, "namespace": "default", "ownerReferences": references}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def names(cluster: EmbeddedCluster) -> list[str]:
    """Return the names of the things that are left after a moment."""
    await cluster.clock.advance(1.0)
    return [one["metadata"]["name"] for one in cluster.objects("v1", "ConfigMap", namespace="default")]


async def test_dependents_follow_their_last_owner(cluster: EmbeddedCluster) -> None:
    """With two owners an object stays until both are gone, and loses its reference to the first; all levels follow."""
    first, second = cluster.add(thing("first"), thing("second"))
    (shared,) = cluster.add(thing("shared", first, second))
    cluster.add(thing("below", shared))
    cluster.remove("v1", "ConfigMap", "first", namespace="default")
    assert await names(cluster) == ["below", "second", "shared"]
    left = cluster.get("v1", "ConfigMap", "shared", namespace="default")["metadata"]["ownerReferences"]
    assert [one["name"] for one in left] == ["second"]
    cluster.remove("v1", "ConfigMap", "second", namespace="default")
    assert await names(cluster) == []


async def test_foreground_deletion_ends_with_the_owner(cluster: EmbeddedCluster, api: Any) -> None:
    """The owner is marked and stays as long as a dependent that blocks it has a finalizer of its own."""
    (owner,) = cluster.add(thing("owner"))
    held = thing("held", owner, blockOwnerDeletion=True)
    held["metadata"]["finalizers"] = ["example.com/wait"]
    cluster.add(held)
    await api.ok("DELETE", f"{THINGS}/owner", {"propagationPolicy": "Foreground"})
    assert await names(cluster) == ["held", "owner"]
    marked = cluster.get("v1", "ConfigMap", "owner", namespace="default")["metadata"]
    assert marked["finalizers"] == ["foregroundDeletion"]
    patch = {"metadata": {"finalizers": None}}
    await api.ok("PATCH", f"{THINGS}/held", patch, content_type="application/merge-patch+json")
    assert await names(cluster) == []


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"propagationPolicy": "Orphan"}, id="policy"),
        pytest.param({"orphanDependents": True}, id="older field"),
    ],
)
async def test_orphans_stay_without_a_reference(cluster: EmbeddedCluster, api: Any, options: dict[str, Any]) -> None:
    """A deletion that orphans removes the owner and the references to it, and nothing else."""
    (owner,) = cluster.add(thing("owner"))
    cluster.add(thing("orphan", owner))
    await api.ok("DELETE", f"{THINGS}/owner", options)
    assert await names(cluster) == ["orphan"]
    assert "ownerReferences" not in cluster.get("v1", "ConfigMap", "orphan", namespace="default")["metadata"]


async def test_an_owner_that_never_existed_is_gone(cluster: EmbeddedCluster) -> None:
    """A reference with another uid than the present object's counts as gone; one of an unknown kind does not."""
    (owner,) = cluster.add(thing("owner"))
    stale = {"metadata": {"name": "owner", "uid": "another"}}
    cluster.add(thing("stale", stale), thing("unknown", owner, kind="Nobody"))
    assert await names(cluster) == ["owner", "unknown"]


async def test_custom_resources_are_collected(cluster: EmbeddedCluster) -> None:
    """A kind that is defined later is followed as well."""
    (owner,) = cluster.add(thing("owner"))
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    spec = {"group": "x.example", "scope": "Namespaced", "names": {"plural": "xs", "kind": "X"}, "versions": [version]}
    cluster.add(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "xs.x.example"},
            "spec": spec,
        }
    )
    cluster.add({**thing("child", owner), "apiVersion": "x.example/v1", "kind": "X"})
    await cluster.clock.advance(1.0)
    assert len(cluster.objects("x.example/v1", "X")) == 1
    cluster.remove("v1", "ConfigMap", "owner", namespace="default")
    await cluster.clock.advance(1.0)
    assert cluster.objects("x.example/v1", "X") == []


async def test_without_a_collector_deletions_do_not_wait() -> None:
    """A server without garbage collector removes an owner at once, whatever the policy."""
    cluster = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(4))
    cluster.add(thing("owner"))
    options = DeleteOptions(propagation="Foreground")
    _, gone = cluster.registry.delete(cluster.resource("v1", "ConfigMap"), "default", "owner", options)
    assert gone
