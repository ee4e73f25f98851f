"""Device classes, claims, templates and slices as objects: what is filled in, what is refused, what kubectl prints."""

from __future__ import annotations

from typing import Any

import pytest

from kube_objects.errors import APIError
from kube_testserver.cluster import EmbeddedCluster

API = "resource.k8s.io/v1"
BASE = f"/apis/{API}"
CLAIMS = f"{BASE}/namespaces/default/resourceclaims"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "gpu-0"}
USER = {"resource": "pods", "name": "p", "uid": "u"}


def claim(*requests: dict[str, Any], name: str = "c", **devices: Any) -> dict[str, Any]:
    """Return a claim; without requests it asks for one device of class `gpu`."""
    asked = list(requests) or [request()]
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": asked, **devices}},
    }


def request(name: str = "r", **exactly: Any) -> dict[str, Any]:
    """Return a request for exactly so much."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def device_class(**spec: Any) -> dict[str, Any]:
    """Return a device class."""
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def resource_slice(*devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a slice of the one pool of a driver, on node n1 unless it says otherwise."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    places = {"nodeSelector", "allNodes", "perDeviceNodeSelection", "nodeName"} & spec.keys()
    place = {} if places else {"nodeName": "n1"}
    offered = {"devices": list(devices)} if devices else {}
    given = {name: value for name, value in spec.items() if value is not None}
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d.example.com", "pool": pool, **place, **offered, **given},
    }


def template(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a template of claims."""
    metadata = {"name": "t", "namespace": "default"}
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec}}


# --- what is filled in ------------------------------------------------------------------------------


def test_defaults_of_requests(cluster: EmbeddedCluster) -> None:
    """One device is asked for, and tolerations compare, where nothing else is said; templates are filled in alike."""
    ways = [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "gpu", "allocationMode": "All"}]
    toleration = {"key": "k", "effect": "NoSchedule"}
    asked = claim(request(tolerations=[toleration]), {"name": "q", "firstAvailable": ways})
    made, of_template = cluster.add(asked, template(asked["spec"]))
    first, second = made["spec"]["devices"]["requests"]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert first["exactly"] == {**exactly, "tolerations": [{**toleration, "operator": "Equal"}]}
    assert [way.get("count") for way in second["firstAvailable"]] == [1, None]
    assert made["status"] == {}
    assert of_template["spec"]["spec"] == made["spec"]


async def test_defaults_of_taints(api: Any) -> None:
    """A taint is dated when it is written, at first or later."""
    taint = {"key": "k", "effect": "NoSchedule"}
    made = await api.ok("POST", f"{BASE}/resourceslices", resource_slice({"name": "a", "taints": [taint]}))
    assert made["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2027-01-15T08:00:00Z"
    assert made["metadata"]["generation"] == 1
    made["spec"]["devices"].append({"name": "b", "taints": [taint]})
    after = await api.ok("PUT", f"{BASE}/resourceslices/s", made)
    assert after["spec"]["devices"][1]["taints"][0]["timeAdded"] == "2027-01-15T08:00:00Z"
    assert after["metadata"]["generation"] == 2


async def test_slices_are_selected_by_node_and_driver(api: Any) -> None:
    """As kubelets and drivers do."""
    await api.ok("POST", f"{BASE}/resourceslices", resource_slice())
    for selector, count in (("spec.nodeName=n1,spec.driver=d.example.com", 1), ("spec.nodeName=n2", 0)):
        found = await api.ok("GET", f"{BASE}/resourceslices", fieldSelector=selector)
        assert len(found["items"]) == count


async def test_tables(api: Any) -> None:
    """`kubectl get` shows the columns of the real server."""
    await api.ok("POST", CLAIMS, claim())
    await api.ok("POST", f"{BASE}/resourceslices", resource_slice())
    await api.ok("POST", f"{BASE}/deviceclasses", device_class())

    async def table(path: str) -> tuple[list[str], list[Any]]:
        shown = await api.ok("GET", path, accept=TABLE)
        return [column["name"] for column in shown["columnDefinitions"]], shown["rows"][0]["cells"]

    assert await table(f"{BASE}/deviceclasses") == (["Name", "Age"], ["gpu", "0s"])
    names = ["Name", "Node", "Driver", "Pool", "Age"]
    assert await table(f"{BASE}/resourceslices") == (names, ["s", "n1", "d.example.com", "n1", "0s"])
    states = []
    for patch in (
        {},
        {"status": {"allocation": {"devices": {"results": [RESULT]}}}},
        {"status": {"reservedFor": [USER]}},
    ):
        await api.ok("PATCH", f"{CLAIMS}/c/status", patch, content_type="application/merge-patch+json")
        states.append((await table(CLAIMS))[1][1])
    body = {"metadata": {"finalizers": ["example.com/x"]}}
    await api.ok("PATCH", f"{CLAIMS}/c", body, content_type="application/merge-patch+json")
    await api.ok("DELETE", f"{CLAIMS}/c")
    states.append((await table(CLAIMS))[1][1])
    await api.ok(
        "PATCH",
        f"{CLAIMS}/c/status",
        {"status": {"allocation": None, "reservedFor": None}},
        content_type="application/merge-patch+json",
    )
    states.append((await table(CLAIMS))[1][1])
    assert states == ["pending", "allocated", "allocated,reserved", "deleted,allocated,reserved", "deleted"]


# --- what is refused --------------------------------------------------------------------------------


def test_valid_objects_are_stored(cluster: EmbeddedCluster) -> None:
    """Everything that the fields are for is taken."""
    configuration = {"opaque": {"driver": "d.example.com", "parameters": {"kind": "X"}}}
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
    values = {"default": "2", "validValues": ["1", "2"]}
    share = {"memory": {"value": "8Gi", "requestPolicy": policy}, "cores": {"value": "2", "requestPolicy": values}}
    attributes = {"a": {"int": 1}, "b": {"bool": True}, "x.example.com/c": {"string": "s"}, "d": {"version": "1.2.3"}}
    term = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    cluster.add(
        device_class(selectors=[{"cel": {"expression": "true"}}], config=[configuration]),
        claim(
            request("a", allocationMode="All", adminAccess=False),
            request("b", count=2, capacity={"requests": {"memory": "2Gi"}}),
            {"name": "c", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]},
            constraints=[
                {"requests": ["a", "c/x"], "matchAttribute": "d.example.com/a"},
                {"distinctAttribute": "d.example.com/b"},
            ],
            config=[{"requests": ["c"], **configuration}],
        ),
        resource_slice({"name": "a", "attributes": attributes, "capacity": share, "allowMultipleAllocations": True}),
        {
            **resource_slice(nodeSelector={"nodeSelectorTerms": [term]}, sharedCounters=[counters("name")]),
            "metadata": {"name": "counters"},
        },
        {
            **resource_slice(
                {"name": "a", "allNodes": True, "consumesCounters": [counters("counterSet")], **conditions},
                {"name": "b", "nodeName": "n1"},
                {"name": "c", "nodeSelector": {"nodeSelectorTerms": [term, term]}},
                perDeviceNodeSelection=True,
            ),
            "metadata": {"name": "devices"},
        },
    )
    assert len(cluster.objects(API, "ResourceSlice")) == 3


def counters(named: str) -> dict[str, Any]:
    """Return a set of counters, or what is taken of one."""
    return {named: "set", "counters": {"memory": {"value": "4Gi"}}}


WRONG_CLAIMS = [
    pytest.param(
        claim({"name": "r"}),
        "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
        id="empty request",
    ),
    pytest.param(
        claim({**request(), "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}),
        "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but "
        "multiple fields are set",
        id="two forms",
    ),
    pytest.param(claim(request("R")), 'spec.devices.requests[0].name: Invalid value: "R"', id="name"),
    pytest.param(claim(request(), request()), 'spec.devices.requests[1]: Duplicate value: "r"', id="twice"),
    pytest.param(
        claim(request(deviceClassName="")),
        "spec.devices.requests[0].exactly.deviceClassName: Required value",
        id="no class",
    ),
    pytest.param(
        claim(request(count=-1)),
        "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero",
        id="count",
    ),
    pytest.param(
        claim(request(allocationMode="All", count=2)),
        "exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
        id="all and count",
    ),
    pytest.param(
        claim(request(allocationMode="Some")),
        'exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"',
        id="mode",
    ),
    pytest.param(
        claim(constraints=[{"requests": ["x"], "matchAttribute": "a.example.com/b"}]),
        'spec.devices.constraints[0].requests[0]: Invalid value: "x": must be the name of a request in the claim or',
        id="reference",
    ),
    pytest.param(
        claim(constraints=[{"requests": ["r/a/b"], "matchAttribute": "a.example.com/b"}]),
        'spec.devices.constraints[0].requests[0]: Invalid value: "r/a/b": must be the name of a request',
        id="deep reference",
    ),
    pytest.param(claim(constraints=[{}]), "spec.devices.constraints[0]: Required value: exactly one of", id="none"),
    pytest.param(
        claim(request(adminAccess=True)),
        "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace",
        id="administrator",
    ),
    pytest.param(
        template(claim(request(adminAccess=True))["spec"]),
        "spec.spec.devices.requests[0].adminAccess: Forbidden: admin access",
        id="administrator in a template",
    ),
    pytest.param(template(claim({"name": "r"})["spec"]), "spec.spec.devices.requests[0]: Required", id="template"),
    pytest.param(claim(request(capacity={"requests": {"m": "1x"}})), "quantities must match", id="quantity"),
]
WRONG_SLICES = [
    pytest.param(resource_slice(driver=""), "spec.driver: Required value", id="no driver"),
    pytest.param(
        resource_slice(pool={"name": "a//b", "generation": -1}),
        "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
        id="pool",
    ),
    pytest.param(
        resource_slice(nodeName=None),
        "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is",
        id="nowhere",
    ),
    pytest.param(
        resource_slice(nodeName="n", allNodes=True),
        'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, '
        "`perDeviceNodeSelection` is required, but multiple fields are set",
        id="two places",
    ),
    pytest.param(
        resource_slice({"name": "a"}, sharedCounters=[counters("name")]),
        'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed',
        id="both",
    ),
    pytest.param(
        resource_slice({"name": "a"}, {"name": "a"}), 'spec.devices[1]: Duplicate value: "a"', id="device twice"
    ),
    pytest.param(resource_slice({"name": "A"}), 'spec.devices[0].name: Invalid value: "A"', id="device name"),
    pytest.param(
        resource_slice({"name": "a", "nodeName": "n"}),
        "can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
        id="own place",
    ),
    pytest.param(
        resource_slice({"name": "a"}, perDeviceNodeSelection=True),
        "spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when",
        id="no own place",
    ),
    pytest.param(
        resource_slice({"name": "a", "capacity": {"m": {"value": "one"}}}), "quantities must match", id="quantity"
    ),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("manifest", "why"), [*WRONG_CLAIMS, *WRONG_SLICES])
def test_invalid_objects_are_refused(cluster: EmbeddedCluster, manifest: dict[str, Any], why: str) -> None:
    """The answer names the field and what is wrong with it."""
    with pytest.raises(APIError) as caught:
        cluster.add(manifest)
    assert why in str(caught.value)
    assert not cluster.objects(API, manifest["kind"])


def test_administrators_have_namespaces_of_their_own(cluster: EmbeddedCluster) -> None:
    """With the label on its namespace, a claim may ask for access to devices that others have."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "admins", "labels": labels}})
    asked = claim(request(adminAccess=True))
    asked["metadata"]["namespace"] = "admins"
    asked["status"] = {"allocation": {"devices": {"results": [{**RESULT, "adminAccess": True}]}}}
    (made,) = cluster.add(asked)
    assert made["status"]["allocation"]["devices"]["results"][0]["adminAccess"]
    plain = claim()
    plain["status"] = asked["status"]
    with pytest.raises(APIError, match=r"status.allocation.devices.results\[0\].adminAccess: Forbidden: admin access"):
        cluster.add(plain)


async def test_specs_do_not_change(api: Any) -> None:
    """A claim and a template are for ever what they ask for, and a slice stays where it is."""
    made = await api.ok("POST", CLAIMS, claim())
    made["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    code, reason, message = await api.refused("PUT", f"{CLAIMS}/c", made)
    assert (code, reason) == (422, "Invalid")
    assert message.startswith('ResourceClaim.resource.k8s.io "c" is invalid: spec: Invalid value: ')
    assert message.endswith(": field is immutable")
    offered = await api.ok("POST", f"{BASE}/resourceslices", resource_slice())
    offered["spec"] |= {"driver": "other.example.com", "nodeName": "n2"}
    _, _, message = await api.refused("PUT", f"{BASE}/resourceslices/s", offered)
    assert message.count("field is immutable") == 2


# --- status -----------------------------------------------------------------------------------------


ALLOCATED = {"allocation": {"devices": {"results": [RESULT]}}}


@pytest.mark.parametrize(
    ("before", "status", "why"),
    [
        pytest.param(
            {},
            {"reservedFor": [USER]},
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
            id="reserved, not allocated",
        ),
        pytest.param(
            {**ALLOCATED, "reservedFor": [USER]},
            {"allocation": {"devices": {"results": [{**RESULT, "device": "gpu-1"}]}}, "reservedFor": [USER]},
            "status.allocation: Invalid value: ",
            id="another allocation",
        ),
        pytest.param(
            {},
            {**ALLOCATED, "reservedFor": [USER, USER]},
            'status.reservedFor[1]: Duplicate value: "u"',
            id="reserved twice",
        ),
        pytest.param({}, {**ALLOCATED, "reservedFor": [{}]}, "status.reservedFor[0].uid: Required value", id="nobody"),
        pytest.param(
            {},
            {"allocation": {"devices": {"results": [{**RESULT, "request": "x"}]}}},
            'status.allocation.devices.results[0].request: Invalid value: "x": must be the name of a request',
            id="unknown request",
        ),
        pytest.param(
            {},
            {"allocation": {"devices": {"results": [{"request": "r"}]}}},
            "status.allocation.devices.results[0].pool: Required value",
            id="no device",
        ),
        pytest.param(
            ALLOCATED,
            {**ALLOCATED, "devices": [{"driver": "d.example.com", "pool": "p", "device": "gpu-9"}]},
            'status.devices[0]: Invalid value: "d.example.com/p/gpu-9": must be an allocated device in the claim',
            id="report on another device",
        ),
    ],
)
async def test_wrong_statuses_are_refused(api: Any, before: Any, status: Any, why: str) -> None:
    """What was given to whom is held to what was asked for, and does not change under its users."""
    made = await api.ok("POST", CLAIMS, claim())
    made = await api.ok("PUT", f"{CLAIMS}/c/status", {**made, "status": before})
    code, _, message = await api.refused("PUT", f"{CLAIMS}/c/status", {**made, "status": status})
    assert code == 422
    assert why in message


async def test_status_and_spec_are_written_apart(api: Any) -> None:
    """A status given with the claim is dropped, and a write of one leaves the other alone."""
    made = await api.ok("POST", CLAIMS, {**claim(), "status": ALLOCATED})
    assert made["status"] == {}
    after = await api.ok("PUT", f"{CLAIMS}/c/status", {**made, "spec": {}, "status": ALLOCATED})
    assert after["status"] == ALLOCATED
    assert after["spec"] == made["spec"]
    assert (await api.ok("PUT", f"{CLAIMS}/c", {**after, "status": {}}))["status"] == ALLOCATED


async def test_reports_go_with_their_device(api: Any) -> None:
    """What a driver says of a device is dropped when the claim loses the device."""
    report = {"driver": "d.example.com", "pool": "p", "device": "gpu-0"}
    made = await api.ok("POST", CLAIMS, claim())
    made = await api.ok("PUT", f"{CLAIMS}/c/status", {**made, "status": {**ALLOCATED, "devices": [report]}})
    assert made["status"]["devices"] == [report]
    made = await api.ok("PUT", f"{CLAIMS}/c/status", {**made, "status": {"devices": [report]}})
    assert made["status"] == {}


async def test_deleted_claim_takes_no_new_user(api: Any) -> None:
    """While a claim is being deleted, `reservedFor` may lose users, but may not gain any."""
    asked = claim()
    asked["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    made = await api.ok("POST", CLAIMS, asked)
    await api.ok("PUT", f"{CLAIMS}/c/status", {**made, "status": {**ALLOCATED, "reservedFor": [USER]}})
    left = await api.ok("DELETE", f"{CLAIMS}/c")
    left.pop("apiVersion")
    left.pop("kind")
    more = {**left, "status": {**ALLOCATED, "reservedFor": [USER, {**USER, "uid": "v"}]}}
    _, _, message = await api.refused("PUT", f"{CLAIMS}/c/status", more)
    assert "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set" in message
    await api.ok("PUT", f"{CLAIMS}/c/status", {**left, "status": ALLOCATED})


async def test_allocation_needs_permission_to_bind(guarded: EmbeddedCluster, api_of: Any) -> None:
    """A change of allocation or reservations takes `resourceclaims/binding` beside the status itself."""
    admin, sched = api_of(guarded, "admin-token"), api_of(guarded, "sched-token")
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

    def role(*resources: str) -> dict[str, Any]:
        rule = {"verbs": ["get", "patch", "update"], "apiGroups": ["resource.k8s.io"], "resources": list(resources)}
        return {"metadata": {"name": "dra"}, "rules": [rule]}

    await admin.ok("POST", roles, role("resourceclaims/status"))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "dra"}
    bound = {"metadata": {"name": "dra"}, "roleRef": reference, "subjects": [{"kind": "User", "name": "sched"}]}
    await admin.ok("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", bound)
    await admin.ok("POST", CLAIMS, claim())
    patch = {"content_type": "application/merge-patch+json"}
    code, _, message = await sched.refused("PATCH", f"{CLAIMS}/c/status", {"status": ALLOCATED}, **patch)
    assert code == 422
    assert message.startswith(
        'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: changing status.allocation or '
        'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: '
    )
    await admin.ok("PUT", f"{roles}/dra", role("resourceclaims/status", "resourceclaims/binding"))
    await sched.ok("PATCH", f"{CLAIMS}/c/status", {"status": ALLOCATED}, **patch)
    await admin.ok("PUT", f"{roles}/dra", role("resourceclaims/status"))
    report = {"devices": [{"driver": "d.example.com", "pool": "p", "device": "gpu-0"}]}
    await sched.ok("PATCH", f"{CLAIMS}/c/status", {"status": report}, **patch)
