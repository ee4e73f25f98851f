"""The binding subresource: where a scheduler's decision becomes a fact."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"


def binding(name: str = "p", node: str = "n", **metadata: Any) -> dict[str, Any]:
    """Return a Binding of a pod to a node."""
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


@pytest.fixture
async def stored(api: Any, pod: Any) -> dict[str, Any]:
    """Create the pod that is to be bound."""
    return await api.ok("POST", PODS, pod("p", labels={"app": "t"}, annotations={"kept": "1"}))


async def test_a_binding_ends_the_nomination_and_replaces_the_condition(api: Any, stored: Any) -> None:
    """What an earlier failure left in the status is gone once the pod is bound."""
    failed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    ready = {"type": "Ready", "status": "False"}
    status = {"status": {"conditions": [ready, failed], "nominatedNodeName": "other"}}
    await api.ok("PATCH", f"{PODS}/p/status", status, content_type="application/merge-patch+json")
    await api.ok("POST", f"{PODS}/p/binding", binding())
    bound = await api.ok("GET", f"{PODS}/p")
    assert "nominatedNodeName" not in bound["status"]
    assert [one["type"] for one in bound["status"]["conditions"]] == ["Ready", "PodScheduled"]
    assert "reason" not in bound["status"]["conditions"][1]


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        pytest.param(binding("q"), 400, "name in URL does not match name in Binding object", id="other name"),
        pytest.param(binding(namespace="x"), 400, "does not match the namespace sent on the request", id="namespace"),
        pytest.param({"metadata": {"name": "p"}}, 500, "target.name: Required value", id="no target"),
        pytest.param(
            {"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "n"}},
            500,
            'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
            id="no node",
        ),
        pytest.param(
            binding(resourceVersion="1"),
            409,
            "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: ",
            id="version",
        ),
    ],
)
async def test_refused_bindings(api: Any, stored: Any, body: Any, code: int, words: str) -> None:
    """A binding that contradicts itself or its pod is refused, and the pod stays unbound."""
    status, _, message = await api.refused("POST", f"{PODS}/p/binding", body)
    assert status == code
    assert words in message
    assert await api.ok("GET", f"{PODS}/p") == stored


async def test_the_older_way_to_bind(api: Any, stored: Any) -> None:
    """A binding may also be posted as an object of its own; a dry run of it binds nothing."""
    path = "/api/v1/namespaces/default/bindings"
    assert (await api("POST", path, binding(), dryRun="All"))[0] == 201
    assert await api.ok("GET", f"{PODS}/p") == stored
    assert (await api("POST", path, binding()))[0] == 201
    assert (await api.ok("GET", f"{PODS}/p"))["spec"]["nodeName"] == "n"


async def test_a_binding_can_only_be_posted(api: Any, stored: Any) -> None:
    """Other methods are not allowed."""
    for method in ("GET", "PUT", "DELETE"):
        assert (await api.refused(method, f"{PODS}/p/binding", binding()))[:2] == (405, "MethodNotAllowed")
