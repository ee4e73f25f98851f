"""Write kube-testserver's table of Kubernetes' kinds and their fields.

    python .ci/kinds.py KUBERNETES/api/openapi-spec/v3 packages/kube-testserver/kube_testserver/schema/kinds.json.gz

KUBERNETES is a checkout of the Kubernetes repository.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

#: The group versions that are served, or that somebody may come to serve.
DOCUMENTS = (
    "api__v1",
    "apis__admissionregistration.k8s.io__v1",
    "apis__apiextensions.k8s.io__v1",
    "apis__apps__v1",
    "apis__authentication.k8s.io__v1",
    "apis__authorization.k8s.io__v1",
    "apis__autoscaling__v1",
    "apis__autoscaling__v2",
    "apis__batch__v1",
    "apis__coordination.k8s.io__v1",
    "apis__discovery.k8s.io__v1",
    "apis__events.k8s.io__v1",
    "apis__networking.k8s.io__v1",
    "apis__policy__v1",
    "apis__rbac.authorization.k8s.io__v1",
    "apis__resource.k8s.io__v1",
    "apis__scheduling.k8s.io__v1",
    "apis__scheduling.k8s.io__v1alpha2",
    "apis__storage.k8s.io__v1",
)
#: What a client never sends as an object of its own.
ANSWERS = ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status", "WatchEvent")
_PREFIX = "#/components/schemas/"
_KEPT = (
    "type",
    "format",
    "required",
    "oneOf",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-group-version-kind",
)


def without_prose(schema: dict) -> dict:
    """Return a schema without descriptions, references in their short form."""
    kept = {name: schema[name] for name in _KEPT if name in schema}
    reference = schema.get("$ref") or next((one["$ref"] for one in schema.get("allOf", ()) if "$ref" in one), None)
    if reference:
        kept["$ref"] = reference.removeprefix(_PREFIX)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            kept[name] = without_prose(schema[name])
    if schema.get("default"):  # of a key of a list, where an item may leave it out; the others are zeros
        kept["default"] = schema["default"]
    if "properties" in schema:
        kept["properties"] = {name: without_prose(inner) for name, inner in schema["properties"].items()}
    return kept


def references(schema: dict) -> set[str]:
    """Return the names of the schemas that one refers to."""
    found = {schema["$ref"]} if "$ref" in schema else set()
    inner = [
        *schema.get("properties", {}).values(),
        *(schema[name] for name in ("items", "additionalProperties") if name in schema),
    ]
    return found.union(*(references(one) for one in inner))


def main(folder: str, target: str) -> None:
    """Write the table."""
    schemas: dict[str, dict] = {}
    for document in DOCUMENTS:
        text = (Path(folder) / f"{document}_openapi.json").read_text(encoding="utf-8")
        schemas |= json.loads(text)["components"]["schemas"]
    wanted = [
        name
        for name, schema in schemas.items()
        if any(
            not one["kind"].endswith("List") and one["kind"] not in ANSWERS
            for one in schema.get("x-kubernetes-group-version-kind", ())
        )
        and not name.endswith((".WatchEvent", ".Status"))
    ]
    table: dict[str, dict] = {}
    while wanted:
        name = wanted.pop()
        if name not in table:
            table[name] = without_prose(schemas[name])
            if name.endswith(".DeleteOptions"):  # one kind in every group version
                table[name].pop("x-kubernetes-group-version-kind", None)
            wanted += references(table[name])
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(table[name], separators=(',', ':'))}" for name in sorted(table)
    )
    with gzip.GzipFile(target, "wb", mtime=0) as file:
        file.write(f"{{\n{lines}\n}}\n".encode())
    sys.stdout.write(f"{len(table)} types\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
