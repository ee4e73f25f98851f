"""The reference page of the embedded server, held against the server."""

from __future__ import annotations

import re
from pathlib import Path

from kube_testserver.access.bootstrap import bootstrap_objects
from kube_testserver.resources.builtin import BUILTIN_RESOURCES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reference/embedded-api-server.md").read_text(encoding="utf-8")


def test_every_resource_is_named() -> None:
    """Each built-in resource stands in the row of its group."""
    lines = re.findall(r"^\| `?([\w./]+)`? \| (.*) \|$", PAGE, re.MULTILINE)
    rows = {group: set(re.findall(r"`([a-z]+)`", named)) for group, named in lines}
    missing = {
        f"{resource.api_version}/{resource.plural}"
        for resource in BUILTIN_RESOURCES
        if resource.plural not in rows.get(resource.api_version if resource.group else "core", set())
    }
    assert not missing


def test_roles_of_the_beginning_are_named() -> None:
    """Each cluster role that is there from the beginning, but for those that others aggregate."""
    names = {obj["metadata"]["name"] for resource, _, obj in bootstrap_objects() if resource.plural == "clusterroles"}
    assert not {name for name in names if f"`{name}`" not in PAGE and "aggregate-to" not in name}
