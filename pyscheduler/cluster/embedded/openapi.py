"""Just enough of /openapi/v3 for `kubectl apply`: which kinds can be patched, and that fields are looked at.

Before kubectl sends an object it wants to know whether the server checks unknown fields itself; if the document says so
(a PATCH with the parameter `fieldValidation`), it leaves the checking to the server. The documents here say that, and
carry no schemas.

Differs from the real server: unknown fields of built-in kinds are kept, not reported.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from pyscheduler.cluster.embedded.store import encode

if TYPE_CHECKING:
    from pyscheduler.cluster.embedded.resources import Resource, ResourceTable
    from pyscheduler.cluster.embedded.store import Object

__all__ = ["document", "index"]

_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_RESPONSES: Final = {"200": {"description": "OK"}}


def index(table: ResourceTable) -> Object:
    """Return the document at /openapi/v3: where the document of each group version is."""
    paths = {}
    for group, versions in table.groups().items():
        for version in versions:
            path = _base(group, version)
            digest = hashlib.sha256(encode(document(table, path))).hexdigest()[:32].upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def document(table: ResourceTable, path: str) -> Object | None:
    """Return the document of one group version (`path` as in ``apis/apps/v1``), or None when it is not served."""
    for group, versions in table.groups().items():
        for version, resources in versions.items():
            if path == _base(group, version):
                described = dict(_describe(path, resource) for resource in resources if "patch" in resource.verbs)
                info = {"title": "Kubernetes", "version": "v1.36.0"}
                return {"openapi": "3.0.0", "info": info, "paths": described}
    return None


def _base(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _describe(base: str, resource: Resource) -> tuple[str, Object]:
    scope = "namespaces/{namespace}/" if resource.namespaced else ""
    patch = {
        "operationId": f"patch{resource.kind}",
        "parameters": _PARAMETERS,
        "responses": _RESPONSES,
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
    return f"/{base}/{scope}{resource.plural}/{{name}}", {"patch": patch}
