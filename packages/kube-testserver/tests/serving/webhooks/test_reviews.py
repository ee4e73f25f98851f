"""The choice of webhooks for a write, and the reviews that they get."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"


def config_map(name: str = "c", **fields: Any) -> dict[str, Any]:
    """Return a ConfigMap; `labels` go into its metadata."""
    metadata = {"name": name} | ({"labels": fields.pop("labels")} if "labels" in fields else {})
    return {"metadata": metadata, **fields}


# --- what a webhook sees ------------------------------------------------------------------------------


async def test_review_of_a_creation(api: Any, hook: Any) -> None:
    """A webhook gets an AdmissionReview v1 with the complete object, and its uid is the one that is stored."""
    await hook.configure(api, hook.spec())
    created = await api.ok("POST", MAPS, config_map(data={"a": "b"}), fieldManager="me")
    [review] = hook.reviews
    assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    assert hook.paths == ["/review?timeout=10s"]
    metadata = {name: value for name, value in created["metadata"].items() if name != "resourceVersion"}
    request = review["request"]
    assert request.pop("uid")
    assert request == {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "c",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "system:anonymous", "groups": ["system:unauthenticated"]},
        "object": {**created, "metadata": metadata},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
    }


async def test_reviews_of_changes_and_deletions(api: Any, hook: Any) -> None:
    """An update shows the object as it was and as it is to be; a deletion shows it as it was."""
    await api.ok("POST", MAPS, config_map(data={"a": "b"}))
    await hook.configure(api, hook.spec())
    await api.ok("PATCH", f"{MAPS}/c", {"data": {"a": "c"}}, content_type=MERGE)
    await api.ok("DELETE", f"{MAPS}/c")
    changed, deleted = hook.requests()
    assert (changed["operation"], changed["options"]["kind"]) == ("UPDATE", "UpdateOptions")
    assert (changed["oldObject"]["data"], changed["object"]["data"]) == ({"a": "b"}, {"a": "c"})
    assert changed["object"]["metadata"] == changed["oldObject"]["metadata"]
    assert (deleted["operation"], deleted["object"], deleted["oldObject"]["data"]) == ("DELETE", None, {"a": "c"})


async def test_deletion_of_a_collection_is_all_or_nothing(api: Any, hook: Any) -> None:
    """Each object is reviewed before the first is deleted."""
    await hook.configure(api, hook.spec())
    for name in ("a", "b"):
        await api.ok("POST", MAPS, config_map(name))
    hook.respond = lambda request: {"allowed": request["name"] != "b"}
    assert (await api.refused("DELETE", MAPS))[0] == 400
    assert len((await api.ok("GET", MAPS))["items"]) == 2
    hook.respond = lambda _: {"allowed": True}
    assert len((await api.ok("DELETE", MAPS))["items"]) == 2
    assert not (await api.ok("GET", MAPS))["items"]


async def test_generated_names(api: Any, hook: Any) -> None:
    """A changing webhook sees no generated name yet; the name that a validating one sees is stored."""
    await hook.configure(api, hook.spec(), kind="mutating")
    await hook.configure(api, hook.spec())
    created = await api.ok("POST", MAPS, {"metadata": {"generateName": "g-"}})
    assert hook.asked() == [("CREATE", "configmaps", ""), ("CREATE", "configmaps", created["metadata"]["name"])]
    assert hook.requests()[1]["object"]["metadata"]["uid"] == created["metadata"]["uid"]


async def test_dry_run_is_said(api: Any, hook: Any) -> None:
    """A webhook knows that nothing will be stored."""
    await hook.configure(api, hook.spec())
    await api.ok("POST", MAPS, config_map(), dryRun="All")
    [request] = hook.requests()
    assert (request["dryRun"], request["options"]["dryRun"]) == (True, ["All"])
    assert not (await api.ok("GET", MAPS))["items"]


async def test_user_of_the_request(guarded: EmbeddedCluster, api_of: Any, hook: Any) -> None:
    """With RBAC, the review names the user."""
    api = api_of(guarded, "admin-token")
    await hook.configure(api, hook.spec())
    await api.ok("POST", MAPS, config_map())
    assert hook.requests()[0]["userInfo"]["username"] == "kubernetes-admin"


@pytest.mark.parametrize(("versions", "chosen"), [(["v2", "v1beta1"], "v1beta1"), (["v1", "v1beta1"], "v1")])
async def test_version_of_the_review(api: Any, hook: Any, versions: list[str], chosen: str) -> None:
    """A webhook gets the first version that it names and the server knows."""
    await hook.configure(api, hook.spec(admissionReviewVersions=versions))
    await api.ok("POST", MAPS, config_map())
    assert hook.reviews[0]["apiVersion"] == f"admission.k8s.io/{chosen}"


# --- subresources -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param(["pods"], ["CREATE "], id="main resource"),
        pytest.param(["pods/status"], ["UPDATE status"], id="one subresource"),
        pytest.param(["*/binding", "pods/eviction"], ["CREATE binding", "CREATE eviction"], id="two"),
        pytest.param(["*"], ["CREATE "], id="all main resources"),
        pytest.param(
            ["pods/*"], ["CREATE ", "UPDATE status", "CREATE binding", "CREATE eviction"], id="all subresources"
        ),
    ],
)
async def test_subresources(api: Any, hook: Any, pod: Any, resources: list[str], expected: list[str]) -> None:
    """Rules name resources and subresources; an eviction is no DELETE."""
    await hook.configure(api, hook.spec(rules=[{**hook.all_rules[0], "resources": resources}]))
    await api.ok("POST", PODS, pod("p"))
    await api.ok("PATCH", f"{PODS}/p/status", {"status": {"reason": "x"}}, content_type=MERGE)
    await api.ok("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    await api.ok("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
    assert [f"{one['operation']} {one.get('subResource', '')}" for one in hook.requests()] == expected


async def test_scale_is_reviewed_as_a_scale(api: Any, hook: Any) -> None:
    """A change of the scale is one review, of a Scale."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    await api.ok("POST", DEPLOYMENTS, deployment)
    await hook.configure(api, hook.spec(rules=hook.all_rules))
    await api.ok("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, content_type=MERGE)
    [request] = hook.requests()
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["oldObject"]["spec"], request["object"]["spec"]) == ({"replicas": 1}, {"replicas": 3})


# --- which webhooks are asked -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ({"operations": ["DELETE"]}, False),
        ({"operations": ["UPDATE", "CREATE"]}, True),
        ({"apiGroups": ["apps"]}, False),
        ({"apiVersions": ["v1beta1"]}, False),
        ({"apiVersions": ["*"]}, True),
        ({"scope": "Cluster"}, False),
        ({"scope": "Namespaced"}, True),
    ],
)
async def test_rules(api: Any, hook: Any, rule: dict[str, Any], asked: bool) -> None:
    """Every part of a rule has to match."""
    base = hook.spec()["rules"][0]
    await hook.configure(api, hook.spec(rules=[{**base, **rule}]))
    await api.ok("POST", MAPS, config_map())
    assert bool(hook.reviews) is asked


async def test_scope_of_namespaces(api: Any, hook: Any) -> None:
    """A Namespace is an object of the cluster."""
    await hook.configure(api, hook.spec(rules=[{**hook.all_rules[0], "scope": "Cluster"}]))
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
    await api.ok("POST", MAPS, config_map())
    assert hook.asked() == [("CREATE", "namespaces", "a")]  # and not its account, which the server makes


@pytest.mark.parametrize(
    ("selectors", "asked"),
    [
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, False),
        ({"objectSelector": {"matchLabels": {"app": "a"}}}, True),
        ({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "?"}]}}, False),
    ],
)
async def test_selectors(api: Any, hook: Any, selectors: dict[str, Any], asked: bool) -> None:
    """Labels of the namespace and of the object decide."""
    await hook.configure(api, hook.spec(**selectors))
    await api.ok("POST", MAPS, config_map(labels={"app": "a"}))
    assert bool(hook.reviews) is asked


async def test_object_selector_sees_both_states(api: Any, hook: Any) -> None:
    """An update is reviewed if the object was selected or is to be; a deletion if it was."""
    await api.ok("POST", MAPS, config_map(labels={"app": "a"}))
    await hook.configure(api, hook.spec(objectSelector={"matchLabels": {"app": "a"}}))
    await api.ok("PATCH", f"{MAPS}/c", {"metadata": {"labels": None}}, content_type=MERGE)
    await api.ok("DELETE", f"{MAPS}/c")
    assert hook.asked() == [("UPDATE", "configmaps", "c")]


@pytest.mark.parametrize(("name", "asked"), [("prod-1", False), ("test-1", True)])
async def test_namespace_selector_of_namespaces_and_nodes(api: Any, hook: Any, name: str, asked: bool) -> None:
    """For a Namespace its own labels decide; other objects of the cluster are always reviewed."""
    selector = {"matchLabels": {"stage": "test"}}
    await hook.configure(api, hook.spec(rules=hook.all_rules, namespaceSelector=selector))
    stage = name.partition("-")[0]
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": {"stage": stage}}})
    await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    assert [one[1] for one in hook.asked()] == (["namespaces", "nodes"] if asked else ["nodes"])


async def test_configurations_are_not_reviewed(api: Any, hook: Any) -> None:
    """A webhook that refuses everything can be removed."""
    hook.respond = lambda _: {"allowed": False}
    await hook.configure(api, hook.spec(rules=hook.all_rules))
    assert (await api.refused("POST", MAPS, config_map()))[0] == 400
    await api.ok("DELETE", f"{GROUP}/validatingwebhookconfigurations/hooks")
    await api.ok("POST", MAPS, config_map())
    assert len(hook.reviews) == 1
