"""Discovery: the documents that list the served groups, versions and resources."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final

from kube_objects.errors import ConfigError

if TYPE_CHECKING:
    from kube_testserver.resources.table import Resource, ResourceTable, Subresource
    from kube_testserver.store import Object

__all__ = ["RELEASE", "aggregated", "core_versions", "group", "group_list", "resource_list", "version"]

#: The Kubernetes release that this server mirrors; /version names it by default.
RELEASE: Final = "1.36.0"
_RELEASE: Final = re.compile(r"v?(?P<major>\d+)\.(?P<minor>\d+)(?P<patch>\.\d+)?")


def version(release: str = RELEASE) -> Object:
    """Return the document at /version for a release like ``1.36`` or ``v1.36.0``; `ConfigError` for any other text."""
    parts = _RELEASE.fullmatch(release)
    if parts is None:
        raise ConfigError(f'"{release}" is no Kubernetes release; write one like "{RELEASE}"')
    major, minor = parts["major"], int(parts["minor"])
    return {
        "major": major,
        "minor": f"{minor}",
        "emulationMajor": major,
        "emulationMinor": f"{minor}",
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": f"{max(minor - 1, 0)}",
        # Build metadata, which every client that compares versions passes over.
        "gitVersion": f"v{major}.{minor}{parts['patch'] or '.0'}+testserver",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def core_versions(host: str) -> Object:
    """Return the document at /api; `host` is where the client reached the server."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    }


def group_list(table: ResourceTable) -> Object:
    """Return the document at /apis."""
    names = [name for name in table.groups() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(table, name) for name in names]}


def group(table: ResourceTable, name: str) -> Object | None:
    """Return the document at /apis/<group>, or None when the group is not served."""
    if name not in table.groups():
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(table, name)}


def _group(table: ResourceTable, name: str) -> Object:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in table.groups()[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(table: ResourceTable, group_name: str, version: str) -> Object | None:
    """Return the document at /api/v1 or /apis/<group>/<version>, or None when that is not served."""
    resources = table.groups().get(group_name, {}).get(version)
    if resources is None:
        return None
    rows: list[Object] = []
    for resource in resources:
        row: Object = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        row |= _names_of(resource)
        if "list" in resource.verbs:
            row["storageVersionHash"] = _storage_hash(resource)
        rows.append(row)
        for subresource in resource.subresources:
            of_other_group = {"group": subresource.group, "version": subresource.version} if subresource.group else {}
            rows.append(
                {
                    "name": f"{resource.plural}/{subresource.name}",
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    **of_other_group,
                    "kind": subresource.kind,
                    "verbs": list(subresource.verbs),
                }
            )
    group_version = f"{group_name}/{version}" if group_name else version
    named = {"apiVersion": "v1"} if group_name else {}
    return {"kind": "APIResourceList", **named, "groupVersion": group_version, "resources": rows}


def _storage_hash(resource: Resource) -> str:
    """Return the digest by which clients see that two resources are stored as one."""
    text = f"{resource.storage_group}/{resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def aggregated(table: ResourceTable, *, core: bool) -> Object:
    """Return everything below /api (`core`) or /apis in one document."""
    items: list[Object] = []
    for name, versions in table.groups().items():
        if (name == "") is not core:
            continue
        items.append(
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": one,
                        "resources": [_aggregated_resource(resource) for resource in resources],
                        "freshness": "Current",
                    }
                    for one, resources in versions.items()
                ],
            }
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(resource: Resource) -> Object:
    row: Object = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    row |= _names_of(resource)
    if resource.subresources:
        row["subresources"] = [
            {"subresource": one.name, "responseKind": _response_kind(resource, one.kind, one), "verbs": list(one.verbs)}
            for one in resource.subresources
        ]
    return row


def _response_kind(resource: Resource, kind: str, subresource: Subresource | None = None) -> Object:
    """Return a kind as the aggregated form names it: group and version are empty where they are the resource's own."""
    group, version = (resource.group, resource.version) if resource.custom else ("", "")
    if subresource is not None and subresource.group:
        group, version = subresource.group, subresource.version
    return {"group": group, "version": version, "kind": kind}


def _names_of(resource: Resource) -> Object:
    """Return the short names and categories of a resource, as far as there are any."""
    names = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {field: value for field, value in names.items() if value}
