"""Server-side apply: who owns which field, what an apply takes away, and what it may not take."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kube_testserver.errors import StatusError
from kube_testserver.patching.server_side_apply import apply_configuration
from kube_testserver.resources.builtin import BUILTIN_RESOURCES
from kube_testserver.schema.field_paths import from_trie, path_text, to_trie
from kube_testserver.schema.kinds import schema_of
from kube_testserver.schema.managed_fields import containers_of, own_fields

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


async def apply(api: Any, manager: str, obj: dict[str, Any], *, path: str = MAPS, **query: str) -> tuple[int, Any]:
    """Apply an object as a manager."""
    where = f"{path}/{obj['metadata']['name']}"
    answer: tuple[int, Any] = await api("PATCH", where, obj, content_type=APPLY, fieldManager=manager, **query)
    return answer


def config(name: str = "c", **data: str) -> dict[str, Any]:
    """Return a ConfigMap."""
    filled = {"data": data} if data else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **filled}


def owners(obj: Any) -> dict[str, list[str]]:
    """Return the fields of each manager, as messages show them."""
    return {
        entry["manager"]: sorted(path_text(path) for path in from_trie(entry["fieldsV1"]))
        for entry in obj["metadata"].get("managedFields", ())
    }


async def test_an_apply_creates_and_owns_what_it_names(api: Any) -> None:
    """The first apply creates the object; its manager owns the fields it gave, and nothing else."""
    status, made = await apply(api, "one", config(a="1"))
    assert status == 201
    [entry] = made["metadata"]["managedFields"]
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("Apply", "v1", "FieldsV1")
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}
    status, again = await apply(api, "one", config(a="1"))
    assert (status, again) == (200, made)


async def test_apply_removes_fields_it_no_longer_names(api: Any) -> None:
    """A field that only its manager owned is removed with the next apply that leaves it out."""
    await apply(api, "one", config(a="1", b="2"))
    await apply(api, "two", config(b="2", c="3"))
    status, after = await apply(api, "one", config())
    assert (status, after["data"]) == (200, {"b": "2", "c": "3"})
    assert owners(after) == {"two": [".data.b", ".data.c"]}
    assert "data" not in (await apply(api, "two", config()))[1]


async def test_conflicts_are_refused_until_forced(api: Any) -> None:
    """Another's value is a conflict that names the owner and the field; force takes the field."""
    await apply(api, "one", config(a="1", b="1"))
    status, refused = await apply(api, "two", config(a="2"))
    assert (status, refused["reason"]) == (409, "Conflict")
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert refused["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    ]
    status, refused = await apply(api, "two", config(a="2", b="2"))
    assert refused["message"].startswith('Apply failed with 2 conflicts: conflicts with "one":\n- .data.a')
    status, taken = await apply(api, "two", config(a="2"), force="true")
    assert (status, taken["data"]) == (200, {"a": "2", "b": "1"})
    assert owners(taken) == {"one": [".data.b"], "two": [".data.a"]}


async def test_an_update_takes_what_it_changes(api: Any) -> None:
    """From the first apply on, other writes are followed too: what they change is theirs."""
    await apply(api, "one", config(a="1", b="1"))
    patch = {"data": {"a": "2", "b": None, "c": "3"}}
    changed = await api.ok("PATCH", f"{MAPS}/c", patch, content_type=MERGE, fieldManager="editor")
    assert owners(changed) == {"editor": [".data.a", ".data.c"]}
    assert (await apply(api, "one", config(a="1")))[0] == 409


async def test_objects_from_before_the_first_apply(api: Any) -> None:
    """What was created otherwise belongs to whoever came before; an equal apply shares, another conflicts."""
    created = await api.ok("POST", MAPS, config(a="1"))
    assert "managedFields" not in created["metadata"]
    status, refused = await apply(api, "one", config(a="2"))
    assert status == 409
    assert 'conflict with "before-first-apply" using v1: .data.a' in refused["message"]
    status, shared = await apply(api, "one", config(a="1"))
    assert owners(shared) == {"before-first-apply": [".data", ".data.a"], "one": [".data.a"]}


async def test_kubectl_takes_over_from_itself(api: Any) -> None:
    """What kubectl applied from the client's side, and nobody changed since, it may change from the server's."""
    note = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(config(a="1"))}
    old = config(a="1")
    old["metadata"]["annotations"] = note
    await api.ok("POST", MAPS, old)
    assert (await apply(api, "other", config(a="2")))[0] == 409
    status, taken = await apply(api, "kubectl", config(a="2"))
    assert (status, taken["data"]) == (200, {"a": "2"})


async def test_lists_merge_by_their_keys(api: Any, pod: Any) -> None:
    """Containers are merged by name and ports by number and protocol, lists that are atomic are replaced."""
    containers = [
        {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "args": ["x"]},
        {"name": "d", "image": "i"},
    ]
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    status, made = await apply(api, "one", manifest, path=PODS)
    assert status == 201
    assert '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]' in owners(made)["one"]
    image = {"name": "d", "image": "j"}
    smaller = {**manifest, "spec": {"containers": [image]}}
    status, changed = await apply(api, "two", smaller, path=PODS, force="true")
    assert [(one["name"], one["image"]) for one in changed["spec"]["containers"]] == [("c", "i"), ("d", "j")]
    assert (await apply(api, "one", {**manifest, "spec": {"containers": []}}, path=PODS))[0] == 422


async def test_the_status_is_owned_apart(api: Any, pod: Any) -> None:
    """An apply of the status names its subresource, and leaves the spec alone."""
    await api.ok("POST", PODS, pod("p"))
    status = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}}
    applied = await api.ok("PATCH", f"{PODS}/p/status", status, content_type=APPLY, fieldManager="k", force="1")
    assert applied["status"]["phase"] == "Running"
    [entry] = [one for one in applied["metadata"]["managedFields"] if one["operation"] == "Apply"]
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:phase": {}}})


async def test_managed_fields_can_be_forgotten(api: Any) -> None:
    """They are the server's: what a client sends is ignored, but for the empty list, which forgets them."""
    _, made = await apply(api, "one", config(a="1"))
    forged = {**made, "metadata": {**made["metadata"], "managedFields": [{"manager": "me"}]}}
    assert owners(await api.ok("PUT", f"{MAPS}/c", forged)) == {"one": [".data.a"]}
    emptied = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    after = await api.ok("PATCH", f"{MAPS}/c", emptied, content_type="application/json-patch+json")
    assert "managedFields" not in after["metadata"]


@pytest.mark.parametrize(
    ("changes", "query", "status", "words"),
    [
        pytest.param(
            {}, {"fieldManager": ""}, 422, "fieldManager: Required value: is required for apply patch", id="who"
        ),
        pytest.param({"apiVersion": "v2"}, {}, 400, "Incorrect version specified in apply patch.", id="version"),
        pytest.param({"kind": ""}, {}, 400, "Object 'Kind' is missing in", id="kind"),
        pytest.param({"odd": 1}, {}, 500, ".odd: field not declared in schema", id="field"),
        pytest.param({"metadata": {"name": "c", "managedFields": [{}]}}, {}, 400, "must be nil", id="managed"),
    ],
)
async def test_refused_applies(api: Any, changes: Any, query: Any, status: int, words: str) -> None:
    """What no apply may say, in the words of the real server."""
    asked = {"fieldManager": "one", **query}
    answer, body = await api("PATCH", f"{MAPS}/c", {**config(), **changes}, content_type=APPLY, **asked)
    assert answer == status
    assert words in body["message"]


async def test_force_is_for_applies(api: Any) -> None:
    """Another patch cannot be forced."""
    await api.ok("POST", MAPS, config())
    refused = await api.refused("PATCH", f"{MAPS}/c", {}, content_type=MERGE, force="true")
    assert refused[2].endswith("force: Forbidden: may not be specified for non-apply patch")


def test_the_fields_of_an_object(pod: Any) -> None:
    """Fields in the form of managed fields: as a real server wrote them for a pod that was created like this."""
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    made = pod("p", labels={"app": "t"}, containers=[{"name": "c", "image": "i", "resources": resources}])
    made["spec"]["schedulingGates"] = [{"name": "example.com/g"}]
    schema = schema_of("", "v1", "Pod")
    assert schema is not None
    fields = own_fields(made, schema, subresource="", has_status=True)
    tree = to_trie(set(fields) | containers_of(fields) - {("f:spec", "f:containers")})
    requests = {".": {}, "f:cpu": {}, "f:memory": {}}
    assert tree == {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:image": {},
                    "f:name": {},
                    "f:resources": {".": {}, "f:requests": requests},
                }
            },
            "f:schedulingGates": {".": {}, 'k:{"name":"example.com/g"}': {".": {}, "f:name": {}}},
        },
    }
    assert to_trie(from_trie(tree)) == tree


def test_applies_against_a_plain_model() -> None:
    """Whoever applies what, in whatever order: values, owners and conflicts are those of a table of owners per key."""
    fired: Counter[str] = Counter()
    data = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
    step = st.tuples(st.sampled_from(["one", "two"]), data, st.booleans())

    @given(st.lists(step, min_size=4, max_size=12))
    def play(steps: list[tuple[str, dict[str, str], bool]]) -> None:
        resource = next(one for one in BUILTIN_RESOURCES if one.plural == "configmaps")
        live: dict[str, Any] = {}
        values: dict[str, str] = {}
        owned: dict[str, set[str]] = {"one": set(), "two": set()}
        for who, wanted, force in steps:
            others = owned["two" if who == "one" else "one"]
            clash = {key for key in others & wanted.keys() if values[key] != wanted[key]}
            try:
                live = apply_configuration(resource, live, config(**wanted), manager=who, force=force, now="t")
                refusal = ""
            except StatusError as error:
                refusal = str(error)
            assert bool(refusal) == bool(clash and not force)
            if refusal:
                assert f"{len(clash)} conflict" in refusal
                fired["conflict"] += 1
                continue
            fired["forced" if clash else "shared" if others & wanted.keys() else "applied"] += 1
            others -= clash
            for key in owned[who] - wanted.keys() - others:
                del values[key]
                fired["removed"] += 1
            values |= wanted
            owned[who] = set(wanted)
            assert live.get("data", {}) == values
            keys = {name: {path.removeprefix(".data.") for path in paths} for name, paths in owners(live).items()}
            assert {name: found for name, found in keys.items() if found} == {k: v for k, v in owned.items() if v}

    play()
    assert all(fired[rule] for rule in ("applied", "shared", "forced", "conflict", "removed")), fired
