"""Workload and PodGroup, Kubernetes' own kinds for groups of pods: API resources and validation.

Source: Kubernetes 1.36, `pkg/registry/scheduling`, `pkg/apis/scheduling/v1alpha2/zz_generated.validations.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_objects.names import label_key_errors
from kube_testserver.errors import FieldProblem
from kube_testserver.resources.table import CHANGE_VERBS, Resource, Subresource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kube_testserver.store import Object

__all__ = ["POD_GROUPS", "POD_GROUP_COLLECTIONS", "POD_GROUP_RESOURCES", "pod_group_problems"]

_GROUP: Final = "scheduling.k8s.io"
_VERSION: Final = "v1alpha2"
_POLICIES: Final = ("basic", "gang")
_MOST_TEMPLATES: Final = 8
_MOST_CLAIMS: Final = 4
_DISRUPTION_MODES: Final = ("Pod", "PodGroup")
_HIGHEST_PRIORITY: Final = 1_000_000_000

POD_GROUPS: Final = Resource(
    _GROUP,
    _VERSION,
    "podgroups",
    "PodGroup",
    subresources=(Subresource("status", "PodGroup", CHANGE_VERBS),),
    has_generation=False,
)
POD_GROUP_RESOURCES: Final = (
    POD_GROUPS,
    Resource(_GROUP, _VERSION, "workloads", "Workload", has_generation=False),
)
"""The part of them that is served."""

POD_GROUP_COLLECTIONS: Final = frozenset(resource.collection for resource in POD_GROUP_RESOURCES)


def pod_group_problems(resource: Resource, old: Object | None, new: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with a new object, or with a change of `old`: specs do not change."""
    spec = new.get("spec") or {}
    if old is not None:
        before = old.get("spec") or {}
        for name in sorted(before.keys() | spec.keys()):
            if before.get(name) != spec.get(name):
                yield FieldProblem.invalid(f"spec.{name}", spec.get(name), "field is immutable")
    elif resource.kind == "PodGroup":
        yield from _policy_problems("spec", spec)
    else:
        templates = spec.get("podGroupTemplates") or []
        path = "spec.podGroupTemplates"
        if not templates:
            yield FieldProblem.required(path)
        yield from _too_many_problems(path, templates, _MOST_TEMPLATES)
        seen: set[str] = set()
        for index, template in enumerate(templates):
            name = template.get("name") or ""
            if not name:
                yield FieldProblem.required(f"{path}[{index}].name")
            elif name in seen:
                yield FieldProblem.duplicate(f"{path}[{index}]", name)
            seen.add(name)
            yield from _policy_problems(f"{path}[{index}]", template)


def _policy_problems(path: str, owner: Object) -> Iterator[FieldProblem]:
    policy = owner.get("schedulingPolicy") or {}
    said = [name for name in _POLICIES if policy.get(name) is not None]
    where, names = f"{path}.schedulingPolicy", ", ".join(f"`{name}`" for name in _POLICIES)
    if not said:
        yield FieldProblem.invalid(where, "", f"must specify one of: {names}")
    elif len(said) > 1:
        shown = "{" + ", ".join(f"`{name}`" for name in said) + "}"
        yield FieldProblem.invalid(where, shown, f"must specify exactly one of: {names}")
    if policy.get("gang") is not None:
        count = policy["gang"].get("minCount") or 0
        if not count:
            yield FieldProblem.required(f"{where}.gang.minCount")
        elif count < 1:
            yield FieldProblem.invalid(f"{where}.gang.minCount", count, "must be greater than or equal to 1")
    yield from _too_many_problems(f"{path}.resourceClaims", owner.get("resourceClaims") or [], _MOST_CLAIMS)
    constraints = owner.get("schedulingConstraints") or {}
    mode, priority = owner.get("disruptionMode"), owner.get("priority")
    if mode is not None and mode not in _DISRUPTION_MODES:
        yield FieldProblem.unsupported(f"{path}.disruptionMode", mode, _DISRUPTION_MODES)
    if priority is not None and priority > _HIGHEST_PRIORITY:
        why = f"must be less than or equal to {_HIGHEST_PRIORITY}"
        yield FieldProblem.invalid(f"{path}.priority", priority, why)
    where, topology = f"{path}.schedulingConstraints.topology", constraints.get("topology") or []
    too_many = [*_too_many_problems(where, topology, 1)]
    yield from too_many
    for index, each in enumerate(() if too_many else topology):
        key = each.get("key") or ""
        if not key:
            yield FieldProblem.required(f"{where}[{index}].key")
        else:
            yield from (FieldProblem.invalid(f"{where}[{index}].key", key, rule) for rule in label_key_errors(key))


def _too_many_problems(path: str, items: Sequence[Any], most: int) -> Iterator[FieldProblem]:
    if len(items) > most:
        noun = "item" if most == 1 else "items"
        yield FieldProblem(path, "FieldValueTooMany", f"Too many: {len(items)}: must have at most {most} {noun}")
