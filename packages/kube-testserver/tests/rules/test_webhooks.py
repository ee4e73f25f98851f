"""Configurations of admission webhooks: completed and checked as by the real server."""

from __future__ import annotations

from typing import Any

import pytest

GROUP = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
OK: dict[str, Any] = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
DEFAULTS = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}


async def test_webhooks_are_completed(api: Any) -> None:
    """Absent fields of a webhook get defaults; mutating webhooks have a policy of reinvocation, too."""
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    created = await api.ok("POST", VALIDATING, {"metadata": {"name": "v"}, "webhooks": [{**OK, "rules": [rule]}]})
    assert created["webhooks"] == [{**OK, **DEFAULTS, "rules": [{**rule, "scope": "*"}]}]
    assert created["metadata"]["generation"] == 1
    service = {"clientConfig": {"service": {"name": "x", "namespace": "y"}}}
    created = await api.ok("POST", MUTATING, {"metadata": {"name": "m"}, "webhooks": [{**OK, **service}]})
    client = {"clientConfig": {"service": {"name": "x", "namespace": "y", "port": 443}}}
    assert created["webhooks"] == [{**OK, **DEFAULTS, **client, "reinvocationPolicy": "Never"}]


@pytest.mark.parametrize(
    ("webhooks", "problems"),
    [
        pytest.param(
            [{"name": "a", "clientConfig": {"url": "ftp://h/x"}, "admissionReviewVersions": ["v2"], "rules": [{}]}],
            [
                (
                    'webhooks[0].name: Invalid value: "a": should be a domain with at least three '
                    "segments separated by dots"
                ),
                "webhooks[0].rules[0].operations: Required value",
                "webhooks[0].rules[0].apiGroups: Required value",
                "webhooks[0].rules[0].apiVersions: Required value",
                "webhooks[0].rules[0].resources: Required value",
                "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
                (
                    "webhooks[0].clientConfig.url: Invalid value: \"ftp\": 'https' is the only allowed URL scheme; "
                    "desired format: https://host[/path]"
                ),
                'webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1',
            ],
            id="everything",
        ),
        pytest.param(
            [{**OK, "sideEffects": "Some", "failurePolicy": "X", "matchPolicy": "Y", "timeoutSeconds": 31}],
            [
                'webhooks[0].failurePolicy: Unsupported value: "X": supported values: "Fail", "Ignore"',
                'webhooks[0].matchPolicy: Unsupported value: "Y": supported values: "Equivalent", "Exact"',
                'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
            ],
            id="choices",
        ),
        pytest.param([OK, OK], ['webhooks[1].name: Duplicate value: "a.b.c"'], id="duplicate"),
        pytest.param(
            [{**OK, "name": "", "clientConfig": {}, "admissionReviewVersions": []}],
            [
                "webhooks[0].name: Required value",
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
                "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            ],
            id="nothing",
        ),
        pytest.param(
            [{**OK, "clientConfig": {"url": "https:///x"}}],
            [
                (
                    'webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: '
                    "https://host[/path]"
                )
            ],
            id="no host",
        ),
    ],
)
async def test_invalid_webhooks(api: Any, webhooks: list[Any], problems: list[str]) -> None:
    """A configuration that could not be used is refused, every field named."""
    status, _, message = await api.refused("POST", VALIDATING, {"metadata": {"name": "v"}, "webhooks": webhooks})
    assert status == 422
    prefix = 'ValidatingWebhookConfiguration.admissionregistration.k8s.io "v" is invalid: '
    assert message == prefix + (problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
