"""Paths, methods and forms: how a request finds what it is about, and what it gets when it does not."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/api/v1/namespaces/default/foos", id="unknown resource"),
        pytest.param("/api/v1/foos", id="unknown cluster resource"),
        pytest.param("/api/v1/namespaces/default/nodes/n", id="cluster resource in a namespace"),
        pytest.param("/api/v1/pods/p", id="namespaced resource without namespace"),
        pytest.param("/api/v1/nodes/n/scale", id="unknown subresource"),
        pytest.param("/api/v1/nodes/n/status/more", id="too long"),
        pytest.param("/apis/apps/v1/controllerrevisions", id="unserved resource of a served group"),
    ],
)
async def test_unknown_paths_below_a_served_version(api: Any, path: str) -> None:
    """Within a served version, what is not there is a 404 with a Status."""
    assert await api.refused("GET", path) == (404, "NotFound", "the server could not find the requested resource")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "/", id="root"),
        pytest.param("GET", "/nothing", id="nothing"),
        pytest.param("GET", "/api/v2", id="unknown core version"),
        pytest.param("GET", "/api/v2/pods", id="below an unknown core version"),
        pytest.param("GET", "/apis/example.com", id="unknown group"),
        pytest.param("GET", "/apis/example.com/v1", id="unknown group version"),
        pytest.param("GET", "/apis/example.com/v1/things", id="below an unknown group"),
        pytest.param("POST", "/version", id="posting to a document"),
    ],
)
async def test_paths_nobody_serves(api: Any, method: str, path: str) -> None:
    """Outside of what is served, the answer is the plain page of a web server."""
    answer = await api.send(method, path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("PUT", PODS, id="put a collection"),
        pytest.param("POST", f"{PODS}/p", id="post to an object"),
        pytest.param("DELETE", "/api/v1/namespaces", id="delete all namespaces"),
        pytest.param("DELETE", f"{PODS}/p/status", id="delete a status"),
        pytest.param("GET", "/api/v1/namespaces/default/bindings", id="list bindings"),
        pytest.param("TRACE", PODS, id="unknown method"),
    ],
)
async def test_methods_that_are_not_allowed(api: Any, method: str, path: str) -> None:
    """The path is right, the method is not."""
    status, reason, message = await api.refused(method, path)
    assert (status, reason) == (405, "MethodNotAllowed")
    assert message == "the server does not allow this method on the requested resource"


async def test_namespaces_and_their_subresources(api: Any) -> None:
    """A namespace's own subresources are not taken for resources in it."""
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    assert (await api.ok("GET", "/api/v1/namespaces/ns/status"))["kind"] == "Namespace"
    finalized = {"metadata": {"name": "ns"}, "spec": {"finalizers": []}}
    assert (await api.ok("PUT", "/api/v1/namespaces/ns/finalize", finalized))["spec"]["finalizers"] == []


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/"])
async def test_health(api: Any, path: str) -> None:
    """The server is well as soon as it answers."""
    answer = await api.send("GET", path)
    assert (answer.status, answer.body) == (200, b"ok")


async def test_discovery_of_groups_and_resources(api: Any) -> None:
    """Groups, one group, its resources, and everything at once."""
    groups = [group["name"] for group in (await api.ok("GET", "/apis"))["groups"]]
    assert {"apps", "policy", "storage.k8s.io", "apiextensions.k8s.io"} <= set(groups)
    group = await api.ok("GET", "/apis/apps")
    assert (group["kind"], group["preferredVersion"]["groupVersion"]) == ("APIGroup", "apps/v1")
    resources = await api.ok("GET", "/apis/apps/v1")
    assert resources["groupVersion"] == "apps/v1"
    kinds = {row["name"]: (row["kind"], row["namespaced"]) for row in resources["resources"]}
    assert kinds["replicasets"] == ("ReplicaSet", True)
    assert kinds["replicasets/scale"] == ("Scale", True)
    assert (await api.ok("GET", "/api"))["serverAddressByClientCIDRs"][0]["serverAddress"] == "embedded:80"
    accept = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList,application/json"
    aggregated = await api.ok("GET", "/apis", accept=accept.format("v2"))
    assert aggregated["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert [item["metadata"]["name"] for item in aggregated["items"]] == groups
    assert (await api.ok("GET", "/apis", accept=accept.format("v2beta1")))["kind"] == "APIGroupList"


async def test_openapi_says_that_fields_are_validated(api: Any) -> None:
    """Each group version has a document that lists what can be patched, which is all kubectl asks."""
    paths = (await api.ok("GET", "/openapi/v3"))["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/events.k8s.io/v1"} <= paths.keys()
    url = paths["api/v1"]["serverRelativeURL"].partition("?")[0]
    described = (await api.ok("GET", url))["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert described["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert "fieldValidation" in [parameter["name"] for parameter in described["parameters"]]
    assert (await api.send("GET", "/openapi/v3/apis/nobody/v1")).status == 404


async def test_the_older_openapi_describes_nothing(api: Any) -> None:
    """In protobuf `kubectl` reads it before it applies a `List`, and checks nothing itself that is not described."""
    assert (await api.ok("GET", "/openapi/v2"))["definitions"] == {}
    binary = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = await api.send("GET", "/openapi/v2", accept=binary)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == binary.replace("@", ".")  # an @ is more than a client can parse there


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        pytest.param("", "PodList", id="nothing said"),
        pytest.param("*/*", "PodList", id="anything"),
        pytest.param("application/vnd.kubernetes.protobuf,application/json", "PodList", id="protobuf preferred"),
        pytest.param("application/yaml, application/json; q=0.5", "PodList", id="quality"),
        pytest.param(TABLE, "Table", id="table"),
        pytest.param("application/json;as=Table;v=v1;g=example.com,application/json", "PodList", id="another table"),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            "PartialObjectMetadataList",
            id="metadata",
        ),
    ],
)
async def test_forms_of_a_list(api: Any, pod: Any, accept: str, kind: str) -> None:
    """The first form of the Accept header that can be given is given."""
    await api.ok("POST", PODS, pod("p"))
    listed = await api.ok("GET", PODS, accept=accept)
    assert listed["kind"] == kind
    assert listed["metadata"]["resourceVersion"]


async def test_forms_of_an_object(api: Any, pod: Any) -> None:
    """One object comes as itself, as a table of one row, or as its metadata."""
    await api.ok("POST", PODS, pod("p"))
    table = await api.ok("GET", f"{PODS}/p", accept=TABLE, includeObject="Object")
    assert table["rows"][0]["object"]["kind"] == "Pod"
    assert table["rows"][0]["object"]["spec"]
    bare = await api.ok("GET", f"{PODS}/p", accept=TABLE, includeObject="None")
    assert "object" not in bare["rows"][0]
    metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    partial = await api.ok("GET", f"{PODS}/p", accept=metadata)
    assert (partial["kind"], "spec" in partial) == ("PartialObjectMetadata", False)


async def test_forms_that_cannot_be_given(api: Any) -> None:
    """When no form can be given, the answer says which could."""
    status, reason, message = await api.refused("GET", PODS, accept="application/vnd.kubernetes.protobuf")
    assert (status, reason) == (406, "NotAcceptable")
    assert message.startswith("only the following media types are accepted: application/json")


async def test_head_is_a_get(api: Any, pod: Any) -> None:
    """HEAD finds what GET finds."""
    await api.ok("POST", PODS, pod("p"))
    assert [(await api.send("HEAD", path)).status for path in (PODS, f"{PODS}/p", f"{PODS}/q")] == [200, 200, 404]
