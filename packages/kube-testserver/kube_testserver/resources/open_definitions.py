"""Make CustomResourceDefinitions for kinds whose objects may have any fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["open_definition"]


def open_definition(
    group: str, kind: str, plural: str, versions: Sequence[str], *, namespaced: bool = True
) -> dict[str, Any]:
    """Return a CustomResourceDefinition that keeps every field; objects of the first version are stored."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = [
        {
            "name": version,
            "served": True,
            "storage": not number,
            "schema": {"openAPIV3Schema": anything},
            "subresources": {"status": {}},
        }
        for number, version in enumerate(versions)
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": served,
        },
    }
