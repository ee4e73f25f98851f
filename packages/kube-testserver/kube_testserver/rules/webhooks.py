"""Defaults and validation of the configurations of admission webhooks.

Differs from Kubernetes: a `url` may begin with `http://`, so that a test needs no certificate.
Source: Kubernetes 1.36, `pkg/apis/admissionregistration`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from kube_testserver.errors import FieldProblem
from kube_testserver.rules.names import subdomain_problems
from kube_testserver.rules.workload_defaults import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.store import Object

__all__ = ["default_mutating", "default_validating", "webhook_problems"]

_DEFAULTS: Final[dict[str, Any]] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_RULE_PARTS: Final = ("operations", "apiGroups", "apiVersions", "resources")
_CHOICES: Final = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "sideEffects": ("None", "NoneOnDryRun"),
}
_VERSIONS: Final = ("v1", "v1beta1")
_LONGEST_SECONDS: Final = 30
_NAME_PARTS: Final = 3


def default_validating(configuration: Object) -> None:
    """Complete the webhooks of a configuration."""
    for webhook in configuration.get("webhooks") or ():
        fill(webhook, _DEFAULTS)
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            fill(service, {"port": 443})
        for rule in webhook.get("rules") or ():
            fill(rule, {"scope": "*"})


def default_mutating(configuration: Object) -> None:
    """Complete the webhooks of a configuration that may change objects."""
    default_validating(configuration)
    for webhook in configuration.get("webhooks") or ():
        fill(webhook, {"reinvocationPolicy": "Never"})


def webhook_problems(configuration: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with the webhooks of a configuration."""
    names: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", webhook.get("name") or ""
        yield from _name_problems(f"{path}.name", name)
        for number, rule in enumerate(webhook.get("rules") or ()):
            missing = [part for part in _RULE_PARTS if not rule.get(part)]
            yield from (FieldProblem.required(f"{path}.rules[{number}].{part}") for part in missing)
        yield from _choice_problems(path, webhook)
        yield from _client_problems(f"{path}.clientConfig", webhook.get("clientConfig") or {})
        versions = webhook.get("admissionReviewVersions") or []
        where = f"{path}.admissionReviewVersions"
        if not versions:
            yield FieldProblem.required(where, "must specify one of v1, v1beta1")
        elif not set(versions) & set(_VERSIONS):
            yield FieldProblem.invalid(where, versions, "must include at least one of v1, v1beta1")
        if name and name in names:
            yield FieldProblem.duplicate(f"{path}.name", name)
        names.add(name)


def _name_problems(path: str, name: str) -> Iterator[FieldProblem]:
    if not name:
        yield FieldProblem.required(path)
    elif problems := list(subdomain_problems(path, name)):
        yield from problems
    elif len(name.split(".")) < _NAME_PARTS:
        yield FieldProblem.invalid(path, name, "should be a domain with at least three segments separated by dots")


def _choice_problems(path: str, webhook: Object) -> Iterator[FieldProblem]:
    for field, choices in _CHOICES.items():
        value = webhook.get(field)
        if value is None and field == "sideEffects":
            yield FieldProblem.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
        elif value is not None and value not in choices:
            yield FieldProblem.unsupported(f"{path}.{field}", value, choices)
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= _LONGEST_SECONDS:
        why = "the timeout value must be between 1 and 30 seconds"
        yield FieldProblem.invalid(f"{path}.timeoutSeconds", seconds, why)


def _client_problems(path: str, client: Object) -> Iterator[FieldProblem]:
    url = client.get("url")
    if (url is None) == (client.get("service") is None):
        yield FieldProblem.required(path, "exactly one of url or service is required")
    if url is None:
        return
    parts = urlsplit(url)
    wanted = "desired format: https://host[/path]"
    if parts.scheme not in ("https", "http"):
        rule = f"'https' is the only allowed URL scheme; {wanted}"
        yield FieldProblem.invalid(f"{path}.url", parts.scheme, rule)
    if not parts.netloc:
        yield FieldProblem.invalid(f"{path}.url", parts.netloc, f"host must be specified; {wanted}")
