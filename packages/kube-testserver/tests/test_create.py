"""Creating: what the server fills in, and what it refuses to take."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"


async def test_generated_names_give_up_after_some_collisions(
    api: Any, pod: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When every made-up name is taken, the client is told so."""
    monkeypatch.setattr("kube_testserver.registry.name_ending", lambda rng: "xxxxx")
    await api.ok("POST", PODS, pod("", generateName="job-"))
    assert await api.refused("POST", PODS, pod("", generateName="job-")) == (
        409,
        "AlreadyExists",
        'pods "job-xxxxx" already exists, the server was not able to generate a unique name for the object',
    )


async def test_a_dry_run_answers_but_stores_nothing(api: Any, pod: Any) -> None:
    """With dryRun a write is checked and completed, and then forgotten."""
    answered = await api.ok("POST", PODS, pod("p"), dryRun="All")
    assert answered["spec"]["schedulerName"] == "default-scheduler"
    assert (await api("GET", f"{PODS}/p"))[0] == 404


def change(**fields: Any) -> Any:
    """Return a function that sets fields of a manifest; two underscores go one level down."""

    def apply(manifest: dict[str, Any]) -> dict[str, Any]:
        for path, value in fields.items():
            *parents, leaf = path.split("__")
            inner = manifest
            for parent in parents:
                inner = inner[parent]
            inner[leaf] = value
        return manifest

    return apply


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        pytest.param(
            change(metadata={}), 422, "metadata.name: Required value: name or generateName is required", id="no name"
        ),
        pytest.param(change(metadata__name="a" * 254), 422, "must be no more than 253 bytes", id="long name"),
        pytest.param(change(metadata__namespace="other"), 400, "does not match the namespace sent", id="namespace"),
        pytest.param(change(metadata__resourceVersion="5"), 500, "resourceVersion should not be set", id="version"),
        pytest.param(change(metadata__labels={"a b": "c"}), 422, "metadata.labels: Invalid value", id="label key"),
        pytest.param(change(metadata__labels={"a": "x" * 64}), 422, "must be no more than 63 bytes", id="label value"),
        pytest.param(change(metadata__labels={"a": 1}), 400, "cannot unmarshal number into Go struct", id="label type"),
        pytest.param(change(metadata__labels="a"), 400, "cannot unmarshal string into Go struct", id="labels type"),
        pytest.param(change(kind="Node"), 400, "cannot be handled as a Pod", id="kind"),
        pytest.param(
            change(apiVersion="v2"), 400, "does not match the expected API version (v1)", id="version of the kind"
        ),
        pytest.param(change(spec__containers="x"), 400, "Go struct field Pod.spec.containers", id="containers type"),
        pytest.param(change(spec__containers=[]), 422, "spec.containers: Required value", id="no containers"),
        pytest.param(change(spec={}), 422, "spec.containers: Required value", id="no spec"),
        pytest.param(change(spec__containers=[{"image": "x"}]), 422, "spec.containers[0].name: Required", id="unnamed"),
        pytest.param(
            change(spec__containers=[{"name": "x"}]), 422, "spec.containers[0].image: Required", id="no image"
        ),
        pytest.param(
            change(spec__containers=[{"name": "x", "image": "i"}] * 2),
            422,
            'spec.containers[1].name: Duplicate value: "x"',
            id="twice the same container",
        ),
        pytest.param(
            change(spec__containers=[{"name": "x", "image": "i", "resources": {"requests": {"cpu": "much"}}}]),
            400,
            "quantities must match the regular expression",
            id="quantity",
        ),
        pytest.param(
            change(
                spec__containers=[
                    {"name": "x", "image": "i", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}
                ]
            ),
            422,
            "must be less than or equal to cpu limit of 1",
            id="more than the limit",
        ),
        pytest.param(change(spec__priority="high"), 400, "cannot unmarshal string into Go struct field", id="priority"),
    ],
)
async def test_refused_pods(api: Any, pod: Any, changed: Any, code: int, words: str) -> None:
    """A pod that cannot be understood is a bad request, one that is wrong is invalid; the words name the field."""
    status, reason, message = await api.refused("POST", PODS, changed(pod("p")))
    assert status == code
    assert reason == {400: "BadRequest", 422: "Invalid", 500: ""}[code]
    assert words in message
    assert "\n" not in message


async def test_nulls_count_as_absent(api: Any, pod: Any) -> None:
    """Go writes null for what is empty: such an object is taken."""
    manifest = pod("p", tolerations=None, nodeSelector=None)
    manifest["metadata"]["labels"] = None
    manifest["status"] = None
    created = await api.ok("POST", PODS, manifest)
    assert "labels" not in created["metadata"]


async def test_malformed_nodes_are_refused(api: Any) -> None:
    """A node with an unreadable amount is not taken."""
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "four"}}}
    status, reason, message = await api.refused("POST", "/api/v1/nodes", node)
    assert (status, reason) == (400, "BadRequest")
    assert message.startswith('Node in version "v1" cannot be handled as a Node: quantities must match')


async def test_bodies_may_be_yaml(api: Any) -> None:
    """A YAML body is taken; its times stay texts."""
    body = b"metadata:\n  name: y\n  annotations: {at: '2026-01-01T00:00:00Z'}\ndata: {when: 2026-01-01T00:00:00Z}\n"
    path = "/api/v1/namespaces/default/configmaps"
    created = await api.ok("POST", path, body, content_type="application/yaml")
    assert created["data"] == {"when": "2026-01-01T00:00:00Z"}
    for bad in (b"a: [", b"- 1\n", b"a: 1\n---\nb: 2\n"):
        status, reason, message = await api.refused("POST", path, bad, content_type="application/yaml")
        assert (status, reason) == (400, "BadRequest")
        assert "\n" not in message
