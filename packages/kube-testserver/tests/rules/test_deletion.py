"""DELETE: at once, with grace, with finalizers, with preconditions, and by the dozen."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


async def bind(api: Any, name: str, node: str = "n") -> None:
    """Bind a pod."""
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    await api.ok("POST", f"{PODS}/{name}/binding", binding)


async def test_a_bound_pod_gets_its_grace(api: Any, pod: Any, clock: Any) -> None:
    """A bound pod is marked and stays, until somebody deletes it without grace."""
    await api.ok("POST", PODS, pod("p", terminationGracePeriodSeconds=20))
    await bind(api, "p")
    marked = await api.ok("DELETE", f"{PODS}/p")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 20
    assert marked["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:20Z"
    assert marked["metadata"]["generation"] == 2
    await clock.advance(5)
    assert await api.ok("DELETE", f"{PODS}/p") == marked  # asking again changes nothing
    assert await api.ok("DELETE", f"{PODS}/p", gracePeriodSeconds="60") == marked  # and time is not given back
    shorter = await api.ok("DELETE", f"{PODS}/p", gracePeriodSeconds="10")
    assert shorter["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:10Z"
    gone = await api.ok("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert gone["metadata"]["generation"] == 2
    assert (await api("GET", f"{PODS}/p"))[0] == 404


async def test_finalizers_hold_an_object(api: Any, cluster: Any) -> None:
    """An object with finalizers is marked; it goes when the last one is taken off."""
    path = "/api/v1/namespaces/default/configmaps"
    await api.ok("POST", path, {"metadata": {"name": "c", "finalizers": ["example.com/a"]}})
    watcher = await api.watch(path, resourceVersion=str(cluster.store.version))
    marked = await api.ok("DELETE", f"{path}/c")
    assert "deletionTimestamp" in marked["metadata"]
    assert (await api.ok("DELETE", f"{path}/c")) == marked
    await api.ok("PATCH", f"{path}/c", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert (await api("GET", f"{path}/c"))[0] == 404
    assert await watcher.seen() == [("MODIFIED", "c"), ("DELETED", "c")]


async def test_finalizers_hold_a_pod_beyond_its_grace(api: Any, pod: Any) -> None:
    """A pod without grace and with a finalizer waits for the finalizer."""
    await api.ok("POST", PODS, pod("p", finalizers=["example.com/a"]))
    await api.ok("DELETE", f"{PODS}/p")
    await api.ok("DELETE", f"{PODS}/p")
    assert (await api("GET", f"{PODS}/p"))[0] == 200
    await api.ok("PATCH", f"{PODS}/p", {"metadata": {"finalizers": []}}, content_type=MERGE)
    assert (await api("GET", f"{PODS}/p"))[0] == 404


@pytest.mark.parametrize(
    ("preconditions", "words"),
    [
        pytest.param(
            {"uid": "other"}, "the UID in the precondition (other) does not match the UID in record", id="uid"
        ),
        pytest.param(
            {"resourceVersion": "1"},
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record",
            id="version",
        ),
    ],
)
async def test_preconditions_protect_another_object(api: Any, pod: Any, preconditions: Any, words: str) -> None:
    """A deletion meant for another object, or another version, conflicts."""
    await api.ok("POST", PODS, pod("p"))
    status, reason, message = await api.refused("DELETE", f"{PODS}/p", {"preconditions": preconditions})
    assert (status, reason) == (409, "Conflict")
    assert words in message
    created = await api.ok("GET", f"{PODS}/p")
    metadata = created["metadata"]
    right = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    assert (await api("DELETE", f"{PODS}/p", {"preconditions": right}))[0] == 200


async def test_a_collection_is_deleted_by_selector(api: Any, pod: Any) -> None:
    """A DELETE of a collection takes what the selectors select."""
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.ok("POST", PODS, pod(name, labels={"app": app}))
    listed = await api.ok("DELETE", PODS, labelSelector="app=x")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "c"]
    left = await api.ok("GET", PODS)
    assert [item["metadata"]["name"] for item in left["items"]] == ["b"]


async def test_dry_runs_delete_nothing(api: Any, pod: Any) -> None:
    """With dryRun the answer is that of a deletion, and the object stays."""
    await api.ok("POST", PODS, pod("p"))
    await api.ok("DELETE", f"{PODS}/p", {"dryRun": ["All"]})
    await api.ok("DELETE", f"{PODS}/p", dryRun="All")
    assert "deletionTimestamp" not in (await api.ok("GET", f"{PODS}/p"))["metadata"]


async def test_malformed_options_are_refused(api: Any, pod: Any) -> None:
    """Delete options that cannot be read are a bad request."""
    await api.ok("POST", PODS, pod("p"))
    for options in ({"gracePeriodSeconds": "soon"},):
        assert (await api.refused("DELETE", f"{PODS}/p", **options))[:2] == (400, "BadRequest")
    assert (await api.refused("DELETE", f"{PODS}/p", b"{"))[:2] == (400, "BadRequest")


async def test_a_going_namespace_takes_nothing_in(api: Any, pod: Any, cluster: Any) -> None:
    """Nothing is created in a namespace that is being deleted."""
    cluster.registry.reactions.clear()  # nobody empties it, so that it stays on its way
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    marked = await api.ok("DELETE", "/api/v1/namespaces/ns")
    assert await api.ok("DELETE", "/api/v1/namespaces/ns") == marked
    status, reason, message = await api.refused("POST", "/api/v1/namespaces/ns/pods", pod("p"))
    assert (status, reason) == (403, "Forbidden")
    assert message.endswith("unable to create new content in namespace ns because it is being terminated")
