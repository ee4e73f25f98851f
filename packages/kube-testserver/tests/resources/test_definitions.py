"""CustomResourceDefinitions: served when created, checked by their schema, gone with their objects."""

from __future__ import annotations

from typing import Any

import pytest

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = "/apis/example.com/v1/namespaces/default/groups"
MERGE = "application/merge-patch+json"


def definition(**changes: Any) -> dict[str, Any]:
    """Return a definition whose schema has a bit of everything; `changes` replace parts of its spec."""
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "word": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$"},
            "port": {"x-kubernetes-int-or-string": True},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "maybe": {"type": "string", "nullable": True},
            "letters": {"type": "string", "pattern": r"^\p{L}+$"},
            "share": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1, "exclusiveMaximum": True},
            "on": {"type": "boolean"},
            "few": {"type": "object", "minProperties": 1, "additionalProperties": True},
        },
    }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "selectableFields": [{"jsonPath": ".spec.mode"}],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Tag", "type": "string", "jsonPath": ".spec.tags[0]"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    return {
        "metadata": {"name": "groups.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "groups", "kind": "Group", "shortNames": ["grp"]},
            "versions": [version],
            **changes,
        },
    }


def group(name: str = "g", **spec: Any) -> dict[str, Any]:
    """Return a custom object that fits the definition."""
    return {"apiVersion": "example.com/v1", "kind": "Group", "metadata": {"name": name}, "spec": {"size": 3, **spec}}


@pytest.fixture
async def defined(api: Any) -> dict[str, Any]:
    """Create the definition."""
    return await api.ok("POST", CRDS, definition())


async def test_a_definition_is_served_at_once_and_says_so(api: Any, defined: Any) -> None:
    """Before the definition nothing is there; after it, the resource, its discovery and its conditions."""
    found = await api.ok("GET", f"{CRDS}/groups.example.com")
    assert [one["type"] for one in found["status"]["conditions"]] == ["NamesAccepted", "Established"]
    assert found["status"]["acceptedNames"]["listKind"] == "GroupList"
    [row, status] = (await api.ok("GET", "/apis/example.com/v1"))["resources"]
    assert (row["kind"], row["shortNames"], status["name"]) == ("Group", ["grp"], "groups/status")
    listed = await api.ok("GET", GROUPS)
    assert (listed["kind"], listed["items"]) == ("GroupList", [])


async def test_custom_objects_carry_their_kind_in_lists(api: Any, defined: Any) -> None:
    """Items of custom resources say what they are, unlike built-in ones."""
    created = await api.ok("POST", GROUPS, group())
    [item] = (await api.ok("GET", GROUPS))["items"]
    assert item == created
    assert (item["kind"], item["spec"]) == ("Group", {"size": 3, "mode": "a"})


async def test_unknown_fields_are_dropped(api: Any, defined: Any) -> None:
    """What the schema does not know is cut off, at any depth, unless it is to be kept."""
    manifest = {**group(odd=1, free={"kept": {"deep": 1}}, limits={"a": 1}, few={"x": 1}), "top": 1}
    created = await api.ok("POST", GROUPS, manifest)
    assert created["spec"] == {
        "size": 3,
        "free": {"kept": {"deep": 1}},
        "limits": {"a": 1},
        "few": {"x": 1},
        "mode": "a",
    }
    assert "top" not in created


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(
            {"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1", id="min"
        ),
        pytest.param({"size": 11}, "spec.size in body should be less than or equal to 10", id="max"),
        pytest.param({"size": "3"}, 'spec.size in body must be of type integer: "string"', id="type"),
        pytest.param({"size": True}, 'must be of type integer: "boolean"', id="true is no number"),
        pytest.param({"size": 1.5}, 'must be of type integer: "number"', id="fraction"),
        pytest.param({"mode": "c"}, 'spec.mode: Unsupported value: "c": supported values: "a", "b"', id="enum"),
        pytest.param({"word": "x"}, "spec.word in body should be at least 2 chars long", id="short"),
        pytest.param({"word": "xxxxx"}, "spec.word: Too long: may not be more than 4 bytes", id="long"),
        pytest.param({"word": "X1"}, "spec.word in body should match '^[a-z]*$'", id="pattern"),
        pytest.param({"port": 1.5}, 'must be of type integer,string: "number"', id="int or string"),
        pytest.param({"tags": ["a", "b", "c"]}, "spec.tags: Too many: 3: must have at most 2 items", id="items"),
        pytest.param({"tags": [1]}, 'spec.tags[0] in body must be of type string: "integer"', id="item"),
        pytest.param({"tags": {}}, 'spec.tags: Invalid value: "object"', id="object for a list"),
        pytest.param({"limits": {"a": "b"}}, "spec.limits.a in body must be of type integer", id="value"),
        pytest.param({"share": 0}, "spec.share in body should be greater than 0", id="exclusive minimum"),
        pytest.param({"share": 1}, "spec.share in body should be less than 1", id="exclusive maximum"),
        pytest.param({"few": {}}, "spec.few in body should have at least 1 properties", id="properties"),
    ],
)
async def test_the_schema_refuses(api: Any, defined: Any, spec: Any, words: str) -> None:
    """What the schema forbids is invalid, in the words of the real server."""
    status, reason, message = await api.refused("POST", GROUPS, group(**spec))
    assert (status, reason) == (422, "Invalid")
    assert message.startswith('Group.example.com "g" is invalid: ')
    assert words in message


async def test_required_fields(api: Any, defined: Any) -> None:
    """A missing required field is named with its path."""
    manifest = {**group(), "spec": {"mode": "b"}}
    assert (await api.refused("POST", GROUPS, manifest))[2].endswith("spec.size: Required value")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"port": 80}, id="integer for int or string"),
        pytest.param({"port": "http"}, id="string for int or string"),
        pytest.param({"maybe": "x"}, id="nullable"),
        pytest.param({"share": 0.5}, id="number"),
        pytest.param({"size": 4.0}, id="whole number"),
        pytest.param({"on": False}, id="boolean"),
        pytest.param({"letters": "1"}, id="a pattern that only Go knows"),
    ],
)
async def test_the_schema_accepts(api: Any, defined: Any, spec: Any) -> None:
    """What the schema allows is stored."""
    assert (await api("POST", GROUPS, group(**spec)))[0] == 201


async def test_status_and_generation(api: Any, defined: Any) -> None:
    """The status belongs to its subresource, which changes nothing else; the generation follows the spec."""
    created = await api.ok("POST", GROUPS, {**group(), "status": {"phase": "x"}})
    assert "status" not in created
    body = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 5}, "status": {"phase": "y"}}
    patched = await api.ok("PATCH", f"{GROUPS}/g/status", body, content_type=MERGE)
    assert (patched["status"], patched["spec"]["size"], patched["metadata"]["generation"]) == ({"phase": "y"}, 3, 1)
    assert "labels" not in patched["metadata"]
    patched = await api.ok("PATCH", f"{GROUPS}/g", body, content_type=MERGE)
    assert (patched["status"], patched["spec"]["size"], patched["metadata"]["generation"]) == ({"phase": "y"}, 5, 2)


async def test_changes_are_checked_as_well(api: Any, defined: Any) -> None:
    """An update has to fit the schema, and to name the version it replaces."""
    await api.ok("POST", GROUPS, group())
    assert (await api.refused("PATCH", f"{GROUPS}/g", {"spec": {"size": 0}}, content_type=MERGE))[0] == 422
    assert (await api.refused("PUT", f"{GROUPS}/g", group(size=4)))[2].endswith("must be specified for an update")


async def test_selectable_fields_and_columns(api: Any, defined: Any) -> None:
    """The definition says what can be selected and what is printed."""
    await api.ok("POST", GROUPS, group("g", mode="a", tags=["t"]))
    await api.ok("POST", GROUPS, group("h", mode="b"))
    found = await api.ok("GET", GROUPS, fieldSelector="spec.mode=b")
    assert [item["metadata"]["name"] for item in found["items"]] == ["h"]
    table = await api.ok("GET", GROUPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Tag", "Age"]
    assert [row["cells"] for row in table["rows"]] == [["g", 3, "t", "0s"], ["h", 3, None, "0s"]]


async def test_versions_share_their_objects(api: Any) -> None:
    """Two served versions show the same objects; one that is not served is not there."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": schema},
        {"name": "v2", "served": True, "schema": schema},
        {"name": "v3", "served": False, "schema": schema},
    ]
    await api.ok("POST", CRDS, definition(versions=versions))
    await api.ok("POST", GROUPS, group())
    second = await api.ok("GET", GROUPS.replace("v1", "v2") + "/g")
    assert (second["apiVersion"], second["spec"]) == ("example.com/v2", {"size": 3})
    assert (await api.send("GET", GROUPS.replace("v1", "v3"))).status == 404
    table = await api.ok("GET", GROUPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


async def test_a_changed_definition_serves_what_it_says_now(api: Any, defined: Any) -> None:
    """A version that is no longer served is gone, its objects are not."""
    await api.ok("POST", GROUPS, group())
    renamed = {**defined["spec"]["versions"][0], "name": "v2"}
    patch = {"spec": {"versions": [renamed]}}
    await api.ok("PATCH", f"{CRDS}/groups.example.com", patch, content_type=MERGE)
    assert (await api.send("GET", GROUPS)).status == 404
    assert (await api.ok("GET", GROUPS.replace("v1", "v2") + "/g"))["spec"]["size"] == 3


async def test_a_deleted_definition_takes_its_objects_along(api: Any, defined: Any) -> None:
    """With the definition, its objects and its paths are gone; watchers are told; a new one begins empty."""
    await api.ok("POST", GROUPS, group())
    watcher = await api.watch(GROUPS)
    assert await watcher.seen() == [("ADDED", "g")]
    await api.ok("DELETE", f"{CRDS}/groups.example.com")
    assert (await watcher.seen())[-1] == ("DELETED", "g")
    assert watcher.ended
    assert (await api.send("GET", GROUPS)).status == 404
    await api.ok("POST", CRDS, definition())
    listed = await api.ok("GET", GROUPS)
    assert listed["items"] == []
    again = await api.watch(GROUPS, resourceVersion=listed["metadata"]["resourceVersion"])
    await api.ok("POST", GROUPS, group("h"))
    assert await again.seen() == [("ADDED", "h")]
    late = await api.watch(GROUPS, resourceVersion="3")
    await late.seen()
    assert late.events[0]["object"]["reason"] == "Expired"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"group": ""}, "spec.group: Required value", id="no group"),
        pytest.param({"names": {"plural": "groups"}}, "spec.names.kind: Required value", id="no kind"),
        pytest.param(
            {"names": {"plural": "x", "kind": "Group"}}, 'must be spec.names.plural+"."+spec.group', id="name"
        ),
        pytest.param({"versions": []}, "spec.versions: Required value", id="no version"),
        pytest.param(
            {"versions": [{"name": "v1", "served": True, "storage": False}]},
            "must have exactly one version marked as storage version",
            id="none stored",
        ),
    ],
)
async def test_refused_definitions(api: Any, changes: Any, words: str) -> None:
    """A definition that cannot be served is invalid."""
    status, reason, message = await api.refused("POST", CRDS, definition(**changes))
    assert (status, reason) == (422, "Invalid")
    assert words in message


async def test_a_changed_definition_ends_watches(api: Any, defined: Any) -> None:
    """A change of what is served ends the watches of the kind; one of labels alone does not."""
    watcher = await api.watch(GROUPS)
    patch = {"metadata": {"labels": {"a": "b"}}}
    await api.ok("PATCH", f"{CRDS}/groups.example.com", patch, content_type=MERGE)
    await api.ok("POST", GROUPS, group("g", mode="b"))
    assert (await watcher.seen(), watcher.ended) == ([("ADDED", "g")], False)
    versions = [{**defined["spec"]["versions"][0], "selectableFields": [{"jsonPath": ".spec.size"}]}]
    await api.ok("PATCH", f"{CRDS}/groups.example.com", {"spec": {"versions": versions}}, content_type=MERGE)
    await watcher.seen()
    assert watcher.ended
    assert (await api.refused("GET", GROUPS, fieldSelector="spec.mode=b"))[0] == 400
    found = await api.ok("GET", GROUPS, fieldSelector="spec.size=3")
    assert [item["metadata"]["name"] for item in found["items"]] == ["g"]


async def test_scale_of_custom_objects(api: Any) -> None:
    """A definition says where the numbers are; reading and writing the scale goes there."""
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.now", "labelSelectorPath": ".status.who"}
    made = definition()
    made["spec"]["versions"][0]["subresources"]["scale"] = scale
    await api.ok("POST", CRDS, made)
    await api.ok("POST", GROUPS, group(size=4))
    status = {"status": {"now": 2, "who": "app=g"}}
    await api.ok("PATCH", f"{GROUPS}/g/status", status, content_type=MERGE)
    seen = await api.ok("GET", f"{GROUPS}/g/scale")
    assert (seen["kind"], seen["spec"]) == ("Scale", {"replicas": 4})
    assert seen["status"] == {"replicas": 2, "selector": "app=g"}
    patched = await api.ok("PATCH", f"{GROUPS}/g/scale", {"spec": {"replicas": 6}}, content_type=MERGE)
    assert patched["spec"] == {"replicas": 6}
    assert (await api.ok("GET", f"{GROUPS}/g"))["spec"]["size"] == 6
    stale = {**seen, "spec": {"replicas": 7}}
    assert (await api.refused("PUT", f"{GROUPS}/g/scale", stale))[:2] == (409, "Conflict")
    assert (await api.refused("PATCH", f"{GROUPS}/g/scale", {"spec": {"replicas": -1}}, content_type=MERGE))[0] == 422
    assert (await api.refused("PATCH", f"{GROUPS}/g/scale", {"spec": {"replicas": "x"}}, content_type=MERGE))[0] == 400
    assert (await api.refused("DELETE", f"{GROUPS}/g/scale"))[0] == 405
