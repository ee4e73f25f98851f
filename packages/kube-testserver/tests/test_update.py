"""PUT and PATCH: versions, rights of subresources, generations, and what may not change."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
async def node(api: Any) -> dict[str, Any]:
    """Create a node."""
    return await api.ok("POST", NODES, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})


@pytest.fixture
async def stored(api: Any, pod: Any) -> dict[str, Any]:
    """Create a pod."""
    tolerations = [{"key": "k", "operator": "Exists"}]
    return await api.ok("POST", PODS, pod("p", labels={"app": "t"}, tolerations=tolerations))


async def test_stale_versions_and_other_uids_conflict(api: Any, node: Any) -> None:
    """A PUT or patch based on an older version, or on another object of that name, is refused."""
    await api.ok("PUT", f"{NODES}/n", {**node, "spec": {"unschedulable": True}})
    words = 'Operation cannot be fulfilled on nodes "n": the object has been modified; please apply your changes to the'
    status, reason, message = await api.refused("PUT", f"{NODES}/n", node)
    assert (status, reason, message.startswith(words)) == (409, "Conflict", True)
    old = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {}}
    status, reason, message = await api.refused("PATCH", f"{NODES}/n", old, content_type=MERGE)
    assert (status, reason, message.startswith(words)) == (409, "Conflict", True)
    other = {"metadata": {"name": "n", "uid": "other"}}
    status, reason, message = await api.refused("PUT", f"{NODES}/n", other)
    assert (status, reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: other" in message


async def test_a_put_without_version_overwrites_where_that_is_allowed(api: Any, node: Any) -> None:
    """Nodes may be overwritten blindly, leases may not."""
    await api.ok("PUT", f"{NODES}/n", {"metadata": {"name": "n"}, "spec": {"unschedulable": True}})
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    await api.ok("PUT", f"{leases}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    status, reason, message = await api.refused("PUT", f"{leases}/l", {"metadata": {"name": "l"}, "spec": {}})
    assert (status, reason) == (422, "Invalid")
    assert message == (
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for '
        "an update"
    )


async def test_a_put_of_what_is_gone(api: Any) -> None:
    """A PUT that means a lease by its uid is refused when that is gone; a version alone does not hinder a new one."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    gone = {"metadata": {"name": "l", "uid": "u", "resourceVersion": "5"}}
    status, reason, message = await api.refused("PUT", path, gone)
    assert (status, reason) == (409, "Conflict")
    assert message == (
        'Operation cannot be fulfilled on leases.coordination.k8s.io "l": StorageError: invalid object, Code: 4, Key: '
        "/registry/leases/default/l, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
        "u, UID in object meta: "
    )
    assert (await api("PUT", path, {"metadata": {"name": "l", "resourceVersion": "5"}}))[0] == 201


async def test_a_put_creates_where_that_is_allowed(api: Any) -> None:
    """A PUT of a lease that is not there creates it; of a node it does not."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    assert (await api("PUT", path, {"metadata": {"name": "l"}}))[0] == 201
    assert await api.refused("PUT", f"{NODES}/n", {"metadata": {"name": "n"}}) == (
        404,
        "NotFound",
        'nodes "n" not found',
    )


async def test_a_put_under_another_name_is_refused(api: Any, node: Any) -> None:
    """The name in the body has to be the one in the path; left out, it is taken from there."""
    status, _, message = await api.refused("PUT", f"{NODES}/n", {"metadata": {"name": "m"}})
    assert (status, message) == (400, "the name of the object (m) does not match the name on the URL (n)")
    assert (await api("PUT", f"{NODES}/n", {"spec": {"unschedulable": True}}))[0] == 200


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({"nodeName": "n"}, "spec: Forbidden: pod updates may not change fields other than", id="node"),
        pytest.param({"nodeSelector": {"a": "b"}}, "spec: Forbidden", id="node selector"),
        pytest.param({"priority": 5}, "spec: Forbidden", id="priority"),
        pytest.param({"tolerations": []}, "existing toleration can not be modified", id="tolerations taken away"),
        pytest.param(
            {"schedulingGates": [{"name": "g"}]},
            "spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
            id="new gate",
        ),
    ],
)
async def test_most_of_a_pods_spec_may_not_change(api: Any, stored: Any, spec: Any, words: str) -> None:
    """A pod keeps the spec it was created with, but for the few fields that may change."""
    status, reason, message = await api.refused("PATCH", f"{PODS}/p", {"spec": spec}, content_type=MERGE)
    assert (status, reason) == (422, "Invalid")
    assert words in message


async def test_resize_changes_resources_and_nothing_else(api: Any, stored: Any) -> None:
    """The resize subresource lets resources change in place."""
    container = {"name": "c", "image": "other", "resources": {"requests": {"cpu": "1"}}}
    patch = {"spec": {"containers": [container], "priority": 5}}
    patched = await api.ok("PATCH", f"{PODS}/p/resize", patch, content_type=STRATEGIC)
    [resized] = patched["spec"]["containers"]
    assert (resized["resources"], resized["image"]) == ({"requests": {"cpu": "1"}}, "busybox")
    assert patched["spec"]["priority"] == 0
    assert patched["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("content_type", "patch", "expected"),
    [
        pytest.param(JSON_PATCH, [{"op": "add", "path": "x"}], (400, "BadRequest"), id="no pointer"),
        pytest.param(JSON_PATCH, [{"op": "remove", "path": "/x"}], (422, "Invalid"), id="does not apply"),
        pytest.param(JSON_PATCH, [{"op": "remove", "path": "/metadata"}], (400, "BadRequest"), id="no object left"),
        pytest.param(MERGE, [1], (400, "BadRequest"), id="no object"),
        pytest.param(MERGE, b"{", (400, "BadRequest"), id="no JSON"),
        pytest.param(MERGE, {"metadata": {"name": "q"}}, (400, "BadRequest"), id="another name"),
        pytest.param(MERGE, {"metadata": {"labels": {"a b": "c"}}}, (422, "Invalid"), id="bad label"),
        pytest.param(MERGE, {"spec": {"containers": 5}}, (400, "BadRequest"), id="another shape"),
        pytest.param(STRATEGIC, {"spec": {"containers": [{}]}}, (400, "BadRequest"), id="no merge key"),
        pytest.param(APPLY, b"a: [", (400, "BadRequest"), id="no YAML"),
    ],
)
async def test_patches_that_cannot_be(api: Any, stored: Any, content_type: str, patch: Any, expected: Any) -> None:
    """A malformed patch is a bad request, one that does not fit is invalid; the object stays as it is."""
    manager = {"fieldManager": "m"} if content_type == APPLY else {}
    status, reason, message = await api.refused("PATCH", f"{PODS}/p", patch, content_type=content_type, **manager)
    assert (status, reason) == expected
    assert "\n" not in message
    assert await api.ok("GET", f"{PODS}/p") == stored


async def test_patches_of_what_is_not_there(api: Any) -> None:
    """Only an apply creates what it does not find."""
    assert (await api.refused("PATCH", f"{PODS}/p", {}, content_type=MERGE))[:2] == (404, "NotFound")
    manifest = b"apiVersion: v1\nkind: ConfigMap\ndata: {a: '1'}\n"
    path = "/api/v1/namespaces/default/configmaps/c"
    assert (await api("PATCH", path, manifest, content_type=APPLY, fieldManager="m"))[0] == 201
    manifest = manifest.replace(b"{a: '1'}", b"{b: '2'}")
    status, applied = await api("PATCH", path, manifest, content_type=APPLY, fieldManager="m")
    assert (status, applied["data"]) == (200, {"b": "2"})


async def test_a_dry_run_of_a_patch_changes_nothing(api: Any, stored: Any) -> None:
    """The answer shows the change, the store does not."""
    patch = {"metadata": {"labels": {"new": "1"}}}
    patched = await api.ok("PATCH", f"{PODS}/p", patch, content_type=MERGE, dryRun="All")
    assert patched["metadata"]["labels"] == {"app": "t", "new": "1"}
    assert await api.ok("GET", f"{PODS}/p") == stored


async def test_dry_runs_count_no_version(api: Any, pod: Any) -> None:
    """A dry run of a change shows the version that is stored, one of a creation none."""
    dry = await api.ok("POST", PODS, pod("d"), dryRun="All")
    assert "resourceVersion" not in dry["metadata"]
    stored = await api.ok("POST", PODS, pod("d"))
    patch = {"metadata": {"labels": {"x": "y"}}}
    changed = await api.ok("PATCH", f"{PODS}/d", patch, content_type=MERGE, dryRun="All")
    assert changed["metadata"]["labels"] == {"x": "y"}
    assert changed["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
