"""What a request is about, read from its method, path and query."""

from __future__ import annotations

import pytest

from kube_testserver.access.attributes import Attributes, attributes_of

PODS = "/api/v1/namespaces/a/pods"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        pytest.param("GET", PODS, Attributes("list", namespace="a", resource="pods"), id="list"),
        pytest.param("HEAD", PODS, Attributes("list", namespace="a", resource="pods"), id="head"),
        pytest.param("GET", "/api/v1/pods", Attributes("list", resource="pods"), id="everywhere"),
        pytest.param("GET", f"{PODS}/p", Attributes("get", namespace="a", resource="pods", name="p"), id="get"),
        pytest.param("POST", PODS, Attributes("create", namespace="a", resource="pods"), id="create"),
        pytest.param("DELETE", PODS, Attributes("deletecollection", namespace="a", resource="pods"), id="delete all"),
        pytest.param(
            "POST",
            f"{PODS}/p/binding",
            Attributes("create", namespace="a", resource="pods", name="p", subresource="binding"),
            id="subresource",
        ),
        pytest.param(
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l",
            Attributes("update", group="coordination.k8s.io", namespace="kube-system", resource="leases", name="l"),
            id="group",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/a",
            Attributes("get", namespace="a", resource="namespaces", name="a"),
            id="own ns",
        ),
        pytest.param("POST", "/api/v1/namespaces", Attributes("create", resource="namespaces"), id="namespaces"),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            Attributes("update", namespace="a", resource="namespaces", name="a", subresource="finalize"),
            id="part of a namespace",
        ),
        pytest.param(
            "PATCH", "/apis/g/v1/things/x", Attributes("patch", group="g", resource="things", name="x"), id="x"
        ),
        pytest.param("GET", "/apis/apps/v1", Attributes("get"), id="discovery"),
        pytest.param("POST", "/healthz", Attributes("post"), id="no resource"),
    ],
)
def test_paths(method: str, path: str, expected: Attributes) -> None:
    """Method and path give verb, group, resource, namespace and name."""
    found = attributes_of(method, path, {})
    assert found.path == path
    assert (found.verb, found.group, found.combined, found.namespace, found.name) == (
        expected.verb,
        expected.group,
        expected.combined,
        expected.namespace,
        expected.name,
    )


@pytest.mark.parametrize(
    ("query", "verb", "name"),
    [
        pytest.param({"watch": "1"}, "watch", "", id="watch"),
        pytest.param({"watch": "false"}, "list", "", id="no watch"),
        pytest.param({"fieldSelector": "metadata.name=x"}, "list", "x", id="one name"),
        pytest.param(
            {"fieldSelector": "metadata.name=x,metadata.namespace=a", "watch": "true"}, "watch", "x", id="two"
        ),
        pytest.param({"fieldSelector": "metadata.name!=x"}, "list", "", id="any but one"),
        pytest.param({"fieldSelector": "metadata.name=a/b"}, "list", "", id="not a name"),
        pytest.param({"fieldSelector": "spec.nodeName=n"}, "list", "", id="another field"),
        pytest.param({"fieldSelector": "nonsense"}, "list", "", id="not a selector"),
    ],
)
def test_field_selector_gives_the_name_of_a_list(query: dict[str, str], verb: str, name: str) -> None:
    """A list or watch of one name is about that name, so that a rule with resource names can allow it."""
    found = attributes_of("GET", "/api/v1/configmaps", query)
    assert (found.verb, found.name) == (verb, name)
