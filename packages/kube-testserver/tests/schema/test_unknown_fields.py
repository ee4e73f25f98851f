"""Fields that a kind does not have, and fields that come twice: dropped, told or refused, as the client asks."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.schema import kinds, structs

PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def odd(pod: Any) -> dict[str, Any]:
    """Return a pod with fields that no pod has."""
    made: dict[str, Any] = pod("p", containers=[{"name": "c", "image": "i", "imagee": "x"}])
    made["spec"]["nodeNme"] = "n"
    made["metadata"]["label"] = {}
    return {**made, "stats": 1}


UNKNOWN = [
    'unknown field "metadata.label"',
    'unknown field "spec.containers[0].imagee"',
    'unknown field "spec.nodeNme"',
    'unknown field "stats"',
]


async def test_strict_refuses_and_names_every_field(api: Any, pod: Any) -> None:
    """`fieldValidation=Strict` is a bad request in the decoder's words."""
    status, reason, message = await api.refused("POST", PODS, odd(pod), fieldValidation="Strict")
    assert (status, reason) == (400, "BadRequest")
    assert message == f'Pod in version "v1" cannot be handled as a Pod: strict decoding error: {", ".join(UNKNOWN)}'


@pytest.mark.parametrize("mode", ["", "Warn", "Ignore"])
async def test_otherwise_they_are_dropped(api: Any, pod: Any, mode: str) -> None:
    """What nobody knows is not stored; unless it is to be ignored, the client is warned, each field on its own."""
    query = {"fieldValidation": mode} if mode else {}
    answer = await api.send("POST", PODS, odd(pod), **query)
    assert answer.status == 201
    stored = await api.ok("GET", f"{PODS}/p")
    assert "stats" not in stored
    assert "nodeNme" not in stored["spec"]
    assert "imagee" not in stored["spec"]["containers"][0]
    warnings = answer.headers.get("warning", "")
    expected = ", ".join('299 - "' + text.replace('"', '\\"') + '"' for text in UNKNOWN)
    assert warnings == ("" if mode == "Ignore" else expected)


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        pytest.param(MERGE, {"spec": {"nodeNme": "n"}}, id="merge"),
        pytest.param(STRATEGIC, {"spec": {"nodeNme": "n"}}, id="strategic"),
        pytest.param(JSON_PATCH, [{"op": "add", "path": "/spec/nodeNme", "value": "n"}], id="JSON"),
    ],
)
async def test_patches(api: Any, pod: Any, content_type: str, patch: Any) -> None:
    """A strict patch that brings an unknown field is invalid; otherwise the client is warned."""
    await api.ok("POST", PODS, pod("p"))
    refused = await api.refused("PATCH", f"{PODS}/p", patch, content_type=content_type, fieldValidation="Strict")
    assert refused[:2] == (422, "Invalid")
    assert refused[2].endswith('strict decoding error: unknown field "spec.nodeNme"')
    if content_type == STRATEGIC:
        assert '"map[spec:map[nodeNme:n]]"' in refused[2]
    answer = await api.send("PATCH", f"{PODS}/p", patch, content_type=content_type)
    assert (answer.status, answer.headers["warning"]) == (200, '299 - "unknown field \\"spec.nodeNme\\""')


async def test_an_unknown_validation_is_refused(api: Any, pod: Any) -> None:
    """The choices are named."""
    refused = await api.refused("POST", PODS, pod("p"), fieldValidation="Maybe")
    choices = 'supported values: "", "Ignore", "Strict", "Warn"'
    why = f'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Maybe": {choices}'
    assert refused == (422, "Invalid", why)


async def test_null_counts_as_absent(api: Any, pod: Any) -> None:
    """Where Go writes nothing for null, nothing is stored; a null time stays."""
    made = pod("p", nodeSelector=None, containers=[{"name": "c", "image": "i", "command": None}])
    made["metadata"]["creationTimestamp"] = None
    await api.ok("POST", PODS, made, fieldValidation="Strict")
    stored = await api.ok("GET", f"{PODS}/p")
    assert "nodeSelector" not in stored["spec"]
    assert "command" not in stored["spec"]["containers"][0]


async def test_definitions_are_known_all_the_way_down(api: Any) -> None:
    """A schema within a schema is checked as well, and free parts are free."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "propertees": {}, "default": {"any": 1}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    refused = await api.refused("POST", path, definition, fieldValidation="Strict")
    field = "spec.versions[0].schema.openAPIV3Schema.properties.spec.propertees"
    assert refused[2].endswith(f'strict decoding error: unknown field "{field}"')
    del schema["properties"]["spec"]["propertees"]  # type: ignore[index]  # the tables are of any depth
    await api.ok("POST", path, definition, fieldValidation="Strict")
    thing = {"metadata": {"name": "t"}, "spec": {"free": 1}, "odd": 2}
    refused = await api.refused(
        "POST", "/apis/example.com/v1/namespaces/default/things", thing, fieldValidation="Strict"
    )
    assert refused[2].endswith('strict decoding error: unknown field "spec.free", unknown field "odd"')


@pytest.mark.slow
def test_a_type_can_be_made_of_every_schema() -> None:
    """No schema of the table is beyond the maker of types."""
    tables = [each.get("x-kubernetes-group-version-kind", ()) for each in kinds.definitions().values()]
    rows = [(one["group"], one["version"], one["kind"]) for table in tables for one in table]
    assert len(rows) > 50
    assert not [row for row in rows if structs.struct_of(*row) is None]
