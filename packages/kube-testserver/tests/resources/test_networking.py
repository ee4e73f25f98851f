"""Networking, autoscaling and limit ranges: stored with the defaults of the real server."""

from __future__ import annotations

from typing import Any

import pytest

NAMESPACE = "namespaces/default"
INGRESSES = f"/apis/networking.k8s.io/v1/{NAMESPACE}/ingresses"
AUTOSCALERS = f"/apis/autoscaling/v2/{NAMESPACE}/horizontalpodautoscalers"
PORT = {"port": 80, "protocol": "TCP"}
TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


@pytest.mark.parametrize(
    ("path", "given", "stored"),
    [
        pytest.param(
            f"/api/v1/{NAMESPACE}/endpoints",
            {"subsets": [{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"port": 80}]}]},
            {"subsets": [{"addresses": [{"ip": "10.0.0.9"}], "ports": [PORT]}]},
            id="endpoints",
        ),
        pytest.param(
            f"/apis/discovery.k8s.io/v1/{NAMESPACE}/endpointslices",
            {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.9"]}], "ports": [{"port": 80}]},
            {
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {}}],
                "ports": [{"name": "", **PORT}],
            },
            id="slice",
        ),
        pytest.param(
            f"/apis/discovery.k8s.io/v1/{NAMESPACE}/endpointslices",
            {"addressType": "IPv6"},
            {"addressType": "IPv6", "endpoints": None, "ports": None},
            id="empty slice",
        ),
        pytest.param(
            "/apis/networking.k8s.io/v1/ingressclasses",
            {"spec": {"controller": "x.io/y", "parameters": {"kind": "K", "name": "n"}}},
            {"spec": {"controller": "x.io/y", "parameters": {"kind": "K", "name": "n", "scope": "Cluster"}}},
            id="ingress class",
        ),
        pytest.param(
            f"/apis/networking.k8s.io/v1/{NAMESPACE}/networkpolicies",
            {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}], "egress": [{}]}},
            {
                "spec": {
                    "podSelector": {},
                    "ingress": [{"ports": [PORT]}],
                    "egress": [{}],
                    "policyTypes": ["Ingress", "Egress"],
                }
            },
            id="policy",
        ),
        pytest.param(
            f"/apis/networking.k8s.io/v1/{NAMESPACE}/networkpolicies",
            {"spec": {"podSelector": {}}},
            {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
            id="policy without rules",
        ),
        pytest.param(
            AUTOSCALERS,
            {"spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}},
            {
                "spec": {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": TARGET, "metrics": [CPU]},
                "status": {"desiredReplicas": 0, "currentMetrics": None},
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
        pytest.param(
            f"/api/v1/{NAMESPACE}/limitranges",
            {
                "spec": {
                    "limits": [
                        {"type": "Container", "max": {"cpu": "4"}, "min": {"memory": "1Mi"}, "default": {"gpu": "1"}},
                        {"type": "Pod", "max": {"cpu": "9"}},
                    ]
                }
            },
            {
                "spec": {
                    "limits": [
                        {
                            "type": "Container",
                            "max": {"cpu": "4"},
                            "min": {"memory": "1Mi"},
                            "default": {"cpu": "4", "gpu": "1"},
                            "defaultRequest": {"cpu": "4", "gpu": "1", "memory": "1Mi"},
                        },
                        {"type": "Pod", "max": {"cpu": "9"}},
                    ]
                }
            },
            id="limit range",
        ),
    ],
)
async def test_kinds_are_stored_with_defaults(api: Any, path: str, given: Any, stored: Any) -> None:
    """Each kind is created, completed as by the real server, read, and deleted with a Status."""
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
