"""/openapi/v3: the served resources with the fields of every kind, for `kubectl apply` and `kubectl explain`.

Differs from kube-apiserver: /openapi/v2 is empty, and built-in kinds have no descriptions.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from kube_testserver.schema.kinds import METADATA, definitions, references
from kube_testserver.store import encode

if TYPE_CHECKING:
    from kube_testserver.resources.table import Resource, ResourceTable
    from kube_testserver.schema.kinds import Node
    from kube_testserver.store import Object

__all__ = ["V2", "V2_PROTOBUF", "V2_PROTOBUF_HEADERS", "Documents"]

#: How kubectl asks for it, and how it is answered: an @ is allowed in no content type.
V2_PROTOBUF: Final = ("application/com.github.proto-openapi.spec.v2@", "application/com.github.proto-openapi.spec.v2.")
V2_PROTOBUF_HEADERS: Final = {"content-type": "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"}
#: kubectl asks for /openapi/v2 to check a `List`. It checks only the kinds in this document, so there are none.
V2: Final[Object] = {
    "swagger": "2.0",
    "info": {"title": "Kubernetes", "version": "v1.36.0"},
    "paths": {},
    "definitions": {},
}

_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_RESPONSES: Final = {"200": {"description": "OK"}}
_PREFIX: Final = "#/components/schemas/"
_KIND: Final = "x-kubernetes-group-version-kind"


class Documents:
    """The documents of a table of resources, each made once until the table changes."""

    __slots__ = ("_made", "_revision", "_table")

    def __init__(self, table: ResourceTable) -> None:
        self._table = table
        self._revision = -1
        self._made: dict[str, bytes] = {}

    def index(self) -> Object:
        """Return the document at /openapi/v3: where the document of each group version is."""
        paths = {}
        for path, body in self._all().items():
            digest = hashlib.sha256(body).hexdigest()[:32].upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def document(self, path: str) -> bytes | None:
        """Return the document of one group version (`path` as in ``apis/apps/v1``), or None when it is not served."""
        return self._all().get(path)

    def _all(self) -> dict[str, bytes]:
        if self._revision != self._table.revision:
            self._made = {
                _base(group, version): encode(_document(_base(group, version), resources))
                for group, versions in self._table.groups().items()
                for version, resources in versions.items()
            }
            self._revision = self._table.revision
        return self._made


def _document(path: str, resources: list[Resource]) -> Object:
    schemas: dict[str, Node] = {}
    for resource in resources:
        for name, schema in _schemas_of(resource).items():
            schemas.setdefault(name, schema)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": dict(_describe(path, resource) for resource in resources if "patch" in resource.verbs),
        "components": {"schemas": {name: _pointed(schemas[name]) for name in sorted(schemas)}},
    }


def _base(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _describe(base: str, resource: Resource) -> tuple[str, Object]:
    scope = "namespaces/{namespace}/" if resource.namespaced else ""
    patch = {
        "operationId": f"patch{resource.kind}",
        "parameters": _PARAMETERS,
        "responses": _RESPONSES,
        "x-kubernetes-action": "patch",
        _KIND: _kind_of(resource),
    }
    return f"/{base}/{scope}{resource.plural}/{{name}}", {"patch": patch}


def _kind_of(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schemas_of(resource: Resource) -> dict[str, Node]:
    """Return the schema of a kind and of all that it refers to, by name."""
    root = resource.fields
    if root is None:
        return {}
    if resource.custom:
        properties = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": METADATA},
            **{name: inner for name, inner in root.get("properties", {}).items() if name != "metadata"},
        }
        root = {**root, "properties": properties, _KIND: [_kind_of(resource)]}
        name = ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
    else:
        name = next(known for known, schema in definitions().items() if schema is root)
    found: dict[str, Node] = {name: root}
    todo = [METADATA, *references(root)]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = definitions()[name]
            todo += references(found[name])
    return found


def _pointed(node: Any) -> Any:
    """Return a schema with its references written as OpenAPI wants them."""
    if isinstance(node, dict):
        pointed = {name: _pointed(inner) for name, inner in node.items()}
        if isinstance(node.get("$ref"), str):
            target = {"$ref": _PREFIX + node["$ref"]}
            others = {name: inner for name, inner in pointed.items() if name != "$ref"}
            return {**others, "allOf": [target]} if others else target
        return pointed
    if isinstance(node, list):
        return [_pointed(inner) for inner in node]
    return node
