"""Check and complete CustomResourceDefinitions, and return the resources that they define.

Differs from kube-apiserver: no webhook converts objects between versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver import errors
from kube_testserver.errors import FieldProblem
from kube_testserver.resources import builtin
from kube_testserver.resources.table import CHANGE_VERBS, Resource, ScalePaths, Subresource
from kube_testserver.schema.custom_schemas import has_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.store import Object

__all__ = ["check_definition", "complete_definition", "first_status", "served_resources"]

_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


def complete_definition(definition: Object) -> None:
    """Fill in what a definition may leave out: the names that follow from others, and the conversion."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def first_status(definition: Object) -> Object:
    """Return the status a definition is born with."""
    stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
    return {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}


def check_definition(definition: Object) -> None:
    """Refuse (422) a definition that cannot be served."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    name = definition["metadata"].get("name") or ""
    problems: list[FieldProblem] = []
    problems += [FieldProblem.required(f"spec.{field}") for field in ("group", "scope") if not spec.get(field)]
    problems += [FieldProblem.required(f"spec.names.{field}") for field in ("plural", "kind") if not names.get(field)]
    wanted = f"{names.get('plural')}.{spec.get('group')}"
    if not problems and name != wanted:
        rule = 'must be spec.names.plural+"."+spec.group'
        problems.append(FieldProblem.invalid("metadata.name", name, rule))
    versions = spec.get("versions") or []
    if not versions:
        problems.append(FieldProblem.required("spec.versions"))
    elif sum(1 for version in versions if version.get("storage")) != 1:
        rule = "must have exactly one version marked as storage version"
        problems.append(FieldProblem.invalid("spec.versions", [one.get("name") for one in versions], rule))
    if problems:
        raise errors.invalid(
            builtin.CUSTOM_RESOURCE_DEFINITIONS.group, builtin.CUSTOM_RESOURCE_DEFINITIONS.kind, name, problems
        )


def served_resources(definition: Object) -> Iterator[Resource]:
    """Return one resource for each version that a definition serves; they share a collection."""
    spec = definition["spec"]
    names, group = spec["names"], spec["group"]
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources: dict[str, Any] = version.get("subresources") or {}
        paths = {
            one["jsonPath"].removeprefix("."): tuple(one["jsonPath"].removeprefix(".").split("."))
            for one in version.get("selectableFields") or ()
        }
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        yield Resource(
            group=group,
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            singular=names.get("singular") or names["kind"].lower(),
            list_kind=names.get("listKind") or f"{names['kind']}List",
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=_subresources(names["kind"], subresources),
            verbs=_VERBS,
            registry_path=f"/registry/{group}/{names['plural']}",
            unconditional_update=False,
            custom=True,
            scale=_scale_paths(subresources.get("scale")),
            schema=schema,
            has_rules=has_rules(schema),
            printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
            field_paths=paths,
        )


def _subresources(kind: str, given: Object) -> tuple[Subresource, ...]:
    made = []
    if "status" in given:
        made.append(Subresource("status", kind, CHANGE_VERBS))
    if given.get("scale"):
        made.append(Subresource("scale", "Scale", CHANGE_VERBS, "autoscaling", "v1"))
    return tuple(made)


def _scale_paths(given: Object | None) -> ScalePaths | None:
    if not given:
        return None
    return ScalePaths(
        _steps(given.get("specReplicasPath") or ""),
        _steps(given.get("statusReplicasPath") or ""),
        _steps(given.get("labelSelectorPath") or ""),
    )


def _steps(path: str) -> tuple[str, ...]:
    return tuple(step for step in path.split(".") if step)
