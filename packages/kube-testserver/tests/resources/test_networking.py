"""Networking and autoscaling: stored as they are sent, with few defaults."""

from __future__ import annotations

from typing import Any

import pytest

NAMESPACE = "namespaces/default"
INGRESSES = f"/apis/networking.k8s.io/v1/{NAMESPACE}/ingresses"
AUTOSCALERS = f"/apis/autoscaling/v2/{NAMESPACE}/horizontalpodautoscalers"
TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
POLICY = {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}}
SLICE = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.9"]}], "ports": [{"port": 80}]}


@pytest.mark.parametrize(
    ("path", "given", "stored"),
    [
        pytest.param(f"/apis/networking.k8s.io/v1/{NAMESPACE}/networkpolicies", POLICY, POLICY, id="policy"),
        pytest.param(f"/apis/discovery.k8s.io/v1/{NAMESPACE}/endpointslices", SLICE, SLICE, id="slice"),
        pytest.param(
            AUTOSCALERS,
            {"spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}},
            {
                "spec": {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": TARGET},
            },
            id="autoscaler",
        ),
        pytest.param(
            INGRESSES,
            {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}},
            {
                "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
                "status": {"loadBalancer": {}},
            },
            id="ingress",
        ),
    ],
)
async def test_kinds_are_stored_with_defaults(api: Any, path: str, given: Any, stored: Any) -> None:
    """Each kind is created, read, and deleted with a Status; an autoscaler has a minimum, an ingress a status."""
    created = await api.ok("POST", path, {"metadata": {"name": "a"}, **given})
    assert {name: value for name, value in created.items() if name in ("spec", "status", *stored)} == stored
    assert await api.ok("GET", f"{path}/a") == created
    deleted = await api.ok("DELETE", f"{path}/a")
    assert (deleted["kind"], deleted["details"]["name"]) == ("Status", "a")


async def test_ingress_status_is_a_subresource(api: Any) -> None:
    """Only a write of the status changes the status."""
    given = {"metadata": {"name": "a"}, "spec": {}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}
    assert (await api.ok("POST", INGRESSES, given))["status"] == {"loadBalancer": {}}
    assert (await api.ok("PUT", f"{INGRESSES}/a/status", given))["status"] == given["status"]


async def test_ingress_rules_are_checked_for_unknown_fields(api: Any) -> None:
    """The fields of the kinds are known."""
    given = {"metadata": {"name": "a"}, "spec": {"rules": [{"hots": "a"}]}}
    message = (await api.refused("POST", INGRESSES, given, fieldValidation="Strict"))[2]
    assert message.endswith('strict decoding error: unknown field "spec.rules[0].hots"')


async def test_short_names_in_discovery(api: Any) -> None:
    """Kubectl finds the kinds under their usual names."""
    rows = (await api.ok("GET", "/apis/networking.k8s.io/v1"))["resources"]
    names = {row["name"]: (row.get("shortNames"), row["namespaced"]) for row in rows}
    assert names == {
        "ingressclasses": (None, False),
        "ingresses": (["ing"], True),
        "ingresses/status": (None, True),
        "networkpolicies": (["netpol"], True),
    }
    [scaler, _] = (await api.ok("GET", "/apis/autoscaling/v2"))["resources"]
    assert (scaler["shortNames"], scaler["categories"]) == (["hpa"], ["all"])
