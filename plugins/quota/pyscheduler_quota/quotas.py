"""Compute which ResourceQuotas apply to a pod, how much of each quota the pod uses, and which limits are exceeded.

The keys of `Amounts` are the names that quotas use, such as `requests.cpu`. The values are billionths of a unit.
Source: Kubernetes, `pkg/quota/v1/evaluator/core/pods.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import attrs

from kube_objects.kinds import kind_of
from kube_objects.resources import pod_limits, pod_requests
from pyscheduler.api import QuantityError, ResourceQuota, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kube_objects.affinity import PodAffinityTerm
    from pyscheduler.api import Pod, RawQuantity

__all__ = ["RESOURCE_QUOTAS", "Amounts", "PodTraits", "Quota", "declared_amounts", "exceeded", "pod_usage"]

Amounts: TypeAlias = Mapping[str, int]

RESOURCE_QUOTAS: Final = kind_of(ResourceQuota, "resourcequotas")
"""The kind, for those who watch it."""

_NANO: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6
_REQUESTS: Final = "requests."
_PODS: Final = ("pods", "count/pods")
#: Resources that quotas also limit without the prefix `requests.`.
_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage"})

N = TypeVar("N", int, float)


def exceeded(request: Mapping[str, N], hard: Mapping[str, N], *taken: Mapping[str, N]) -> list[str]:
    """Return the requested resources that a quota limits and that do not fit beside what is `taken`, in order."""
    return [
        name
        for name, amount in request.items()
        if name in hard and sum(each.get(name, 0) for each in taken) + amount > hard[name]
    ]


def declared_amounts(resources: Mapping[str, RawQuantity]) -> dict[str, int]:
    """Return what a group declares, by every name that a quota may have for it, without amounts that cannot be read."""
    amounts: dict[str, int] = {}
    for name, raw in resources.items():
        try:
            nanos = parse_quantity(raw)
        except QuantityError:
            continue
        if nanos >= 0:
            for other in _names(name):
                amounts[other] = max(amounts.get(other, 0), nanos)
    return {name: nanos for name, nanos in amounts.items() if nanos > 0}


def _names(name: str) -> Iterator[str]:
    """Yield the names by which quotas limit a resource."""
    yield name
    if name in _PODS:
        yield from (other for other in _PODS if other != name)
    elif name.startswith(_REQUESTS):
        bare = name.removeprefix(_REQUESTS)
        if bare in _PLAIN or bare.startswith("hugepages-"):
            yield bare
    elif not name.startswith(("limits.", "count/")):
        yield f"{_REQUESTS}{name}"


def pod_usage(pod: Pod) -> dict[str, int]:
    """Return what a living pod uses of quotas; nothing but the pod itself if its amounts cannot be read."""
    usage = dict.fromkeys(_PODS, _NANO)
    try:
        requests, limits = pod_requests(pod), pod_limits(pod)
    except QuantityError:
        return usage
    for name, amount in requests.items():
        for other in _names(name):
            usage[other] = amount * (_NANOS_PER_MILLI if name == "cpu" else _NANO)
    for name, amount in limits.items():
        if name in _PLAIN:
            usage[f"limits.{name}"] = amount * (_NANOS_PER_MILLI if name == "cpu" else _NANO)
    return usage


@attrs.frozen(kw_only=True)
class PodTraits:
    """The facts about a pod that the scopes of a quota depend on."""

    is_terminating: bool = False
    is_best_effort: bool = False
    has_foreign_affinity: bool = False
    priority_class: str = ""

    @classmethod
    def of(cls, pod: Pod) -> PodTraits:
        """Return the traits of a pod."""
        spec = pod.spec
        containers = (*spec.containers, *spec.init_containers)
        asked = [each.resources for each in containers] + ([spec.resources] if spec.resources is not None else [])
        affinity = spec.affinity
        terms: list[PodAffinityTerm] = []
        for part in () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
            if part is not None:
                terms += part.required_during_scheduling_ignored_during_execution
                weighted = part.preferred_during_scheduling_ignored_during_execution
                terms += [each.pod_affinity_term for each in weighted]
        return cls(
            is_terminating=spec.active_deadline_seconds is not None,
            is_best_effort=not any(
                name in {"cpu", "memory"} for each in asked for name in (*each.requests, *each.limits)
            ),
            has_foreign_affinity=any(term.namespaces or term.namespace_selector is not None for term in terms),
            priority_class=spec.priority_class_name,
        )

    def has(self, scope: str) -> bool:
        """Return whether the pod is in a scope; in none that is not known."""
        return {
            "Terminating": self.is_terminating,
            "NotTerminating": not self.is_terminating,
            "BestEffort": self.is_best_effort,
            "NotBestEffort": not self.is_best_effort,
            "CrossNamespacePodAffinity": self.has_foreign_affinity,
            "PriorityClass": bool(self.priority_class),
        }.get(scope, False)


@attrs.frozen
class Quota:
    """A ResourceQuota, read."""

    name: str
    hard: Amounts
    used: Amounts
    source: ResourceQuota

    @classmethod
    def of(cls, quota: ResourceQuota) -> Quota:
        """Read a quota; a limit that cannot be read limits nothing."""
        status = quota.status
        return cls(quota.name, dict(_amounts(status.hard)), dict(_amounts(status.used)), quota)

    @cached_property
    def counts_all(self) -> bool:
        """Return whether the quota has no scopes."""
        spec = self.source.spec
        return not spec.scopes and (spec.scope_selector is None or not spec.scope_selector.match_expressions)

    def counts(self, traits: PodTraits) -> bool:
        """Return whether the scopes of the quota select such a pod."""
        spec = self.source.spec
        if not all(traits.has(scope) for scope in spec.scopes):
            return False
        for term in () if spec.scope_selector is None else spec.scope_selector.match_expressions:
            if term.scope_name == "PriorityClass" and term.operator in {"In", "NotIn"}:
                if (traits.priority_class in term.values) is not (term.operator == "In"):
                    return False
            elif traits.has(term.scope_name) is (term.operator == "DoesNotExist"):
                return False
        return True


def _amounts(said: Mapping[str, RawQuantity]) -> Iterable[tuple[str, int]]:
    for name, raw in said.items():
        try:
            yield name, parse_quantity(raw)
        except QuantityError:
            continue
