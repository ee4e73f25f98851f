"""Add hidden tables of contents to the first page. The site makes its navigation from these tables."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sphinx.application import Sphinx

#: The documents below each caption. A pattern stands for documents that no line names and no earlier pattern matches.
CONTENTS: Final[Mapping[str, Sequence[str]]] = {
    "": ["docs/README"],
    "Tutorials": ["docs/tutorial/first-plugin", "docs/tutorial/gpu-cluster"],
    "How to: plugin authors": [
        "docs/how-to/write-a-plugin",
        "docs/how-to/debug-a-plugin",
        "docs/how-to/make-a-plugin-fast",
        "docs/how-to/when-a-plugin-*",
        "docs/how-to/time-dependent-plugins",
        "docs/how-to/plugin-metrics",
        "docs/how-to/test-with-faults",
        "docs/how-to/publish-a-plugin",
        "docs/how-to/cookbook*",
    ],
    "How to: operators": [
        "docs/how-to/run-on-a-cluster",
        "docs/how-to/install-with-helm",
        "docs/how-to/operate",
        "docs/how-to/runbooks",
        "docs/how-to/group-workloads",
        "docs/how-to/place-by-topology",
        "docs/how-to/reserve-quota",
        "docs/how-to/share-gpus",
        "docs/how-to/bind-by-requests",
        "docs/how-to/why-a-pod-waits",
        "docs/how-to/why-a-job-waits",
        "docs/how-to/what-if",
        "docs/how-to/*",
        "configs/*/README",
    ],
    "Reference": [
        "docs/reference/cli",
        "docs/reference/configuration",
        "docs/reference/framework-api",
        "docs/reference/signatures",
        "docs/reference/compatibility",
        "docs/reference/api/*",
        "docs/reference/*",
    ],
    "Explanation": ["docs/explanation/*", "docs/performance"],
    "Examples and plugins": [
        "examples/*/README",
        "lab/pyscheduler_lab/data/*/README",
        "lab/README",
        "packages/*/README",
        "plugins/*/README",
        "lab/CHANGELOG",
        "packages/*/CHANGELOG",
        "plugins/*/CHANGELOG",
    ],
    "Project": ["CONTRIBUTING", "tests/README", "tests/*/*/README", "changelog.d/README", "CHANGELOG"],
}


def add_contents(app: Sphinx, docname: str, content: list[str]) -> None:
    """Append a hidden table of contents for each caption to the first page."""
    if docname != app.config.root_doc:
        return
    for caption, documents in contents(app.env.found_docs - {docname}).items():
        options = [":hidden:", ":titlesonly:", *([f":caption: {caption}"] if caption else [])]
        content[0] += "\n".join(["\n\n```{toctree}", *options, "", *(f"/{name}" for name in documents), "```"])


def contents(found: set[str]) -> dict[str, list[str]]:
    """Return the documents below each caption; a name wins over a pattern, an earlier pattern over a later one."""
    left = found - {name for names in CONTENTS.values() for name in names}
    chosen: dict[str, list[str]] = {}
    for caption, patterns in CONTENTS.items():
        chosen[caption] = []
        for pattern in patterns:
            matching = [pattern] if "*" not in pattern else sorted(fnmatch.filter(left, pattern))
            left -= set(matching)
            chosen[caption] += matching
    return chosen


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
