"""Find the admission webhooks that the server calls for a write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.errors import SelectorError
from kube_objects.meta import LabelSelector
from kube_objects.selectors import compile_label_selector
from kube_testserver.resources.builtin import NAMESPACES
from kube_testserver.resources.webhooks import WEBHOOK_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube_testserver.registry import Registry
    from kube_testserver.resources.table import Resource
    from kube_testserver.rules.admission_requests import AdmissionRequest
    from kube_testserver.store import Object

__all__ = ["Webhook", "matching_webhooks"]

_ALL: Final = "*"


class Webhook(msgspec.Struct, frozen=True):
    """One webhook: its `spec`, and the name of the configuration that has it."""

    configuration: str
    spec: dict[str, Any]

    @property
    def name(self) -> str:
        """Name in messages."""
        return str(self.spec["name"])

    @property
    def ignores_failures(self) -> bool:
        """True if a write passes when the webhook gives no proper answer."""
        return bool(self.spec.get("failurePolicy") == "Ignore")


def matching_webhooks(registry: Registry, configurations: Resource, request: AdmissionRequest) -> Iterator[Webhook]:
    """Yield the webhooks to ask about a request, in the order of their configurations' names."""
    if request.resource.group == WEBHOOK_GROUP:  # so that a bad one can be removed
        return
    for record in registry.collection(configurations).page().records:
        for spec in record.decode().get("webhooks") or ():
            if (
                any(_rule_matches(rule, request) for rule in spec.get("rules") or ())
                and _namespace_matches(registry, spec.get("namespaceSelector") or {}, request)
                and _object_matches(spec.get("objectSelector") or {}, request)
            ):
                yield Webhook(record.name, spec)


def _rule_matches(rule: Object, request: AdmissionRequest) -> bool:
    resource = request.resource
    return (
        _names(rule.get("operations"), request.operation)
        and _names(rule.get("apiGroups"), resource.group)
        and _names(rule.get("apiVersions"), resource.version)
        and any(_resource_matches(one, request) for one in rule.get("resources") or ())
        and _scope_matches(rule.get("scope") or _ALL, request)
    )


def _names(names: list[str] | None, name: str) -> bool:
    return names is not None and (_ALL in names or name in names)


def _resource_matches(text: str, request: AdmissionRequest) -> bool:
    """Return True if ``pods``, ``pods/status``, ``pods/*``, ``*`` or ``*/*`` means what a request writes."""
    plural, _, subresource = text.partition("/")
    return plural in (_ALL, request.resource.plural) and subresource in (
        (_ALL, request.subresource) if request.subresource or subresource == _ALL else ("",)
    )


def _scope_matches(scope: str, request: AdmissionRequest) -> bool:
    return scope == _ALL or (scope == "Namespaced") is bool(request.namespace)


def _namespace_matches(registry: Registry, selector: Object, request: AdmissionRequest) -> bool:
    """Return True if the namespace of a write is selected: of a Namespace itself, what it is or is to be."""
    if not selector:
        return True
    if request.resource.collection == NAMESPACES.collection:
        return _selects(selector, request.new or request.old)
    if not request.namespace:
        return True
    record = registry.collection(NAMESPACES).get(request.namespace)
    return record is not None and _selects_labels(selector, record.labels)


def _object_matches(selector: Object, request: AdmissionRequest) -> bool:
    return not selector or _selects(selector, request.new) or _selects(selector, request.old)


def _selects(selector: Object, obj: Mapping[str, Any] | None) -> bool:
    return obj is not None and _selects_labels(selector, (obj.get("metadata") or {}).get("labels") or {})


def _selects_labels(selector: Object, labels: Mapping[str, str]) -> bool:
    try:
        return compile_label_selector(msgspec.convert(selector, LabelSelector)).matches(labels)
    except SelectorError:
        return False
