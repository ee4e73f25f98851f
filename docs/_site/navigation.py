"""Add the tables of contents of the site, which a code host could not show, to its first page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sphinx.application import Sphinx

#: The documents below each caption of the navigation. `*` stands for all documents that no other line names.
CONTENTS: Final[Mapping[str, Sequence[str]]] = {
    "": ["docs/README"],
    "Tutorials": ["docs/tutorial/first-plugin", "docs/tutorial/gpu-cluster"],
    "Plugin authors": [
        "docs/how-to/write-a-plugin",
    ],
    "Operators": [
        "docs/how-to/run-on-a-cluster",
        "docs/how-to/operate",
        "docs/how-to/group-workloads",
        "docs/how-to/place-by-topology",
        "docs/how-to/reserve-quota",
        "docs/how-to/share-gpus",
        "docs/how-to/bind-by-requests",
        "docs/how-to/why-a-job-waits",
        "docs/how-to/move-*",
        "configs/*/README",
    ],
    "Reference": [
        "docs/reference/cli",
        "docs/reference/configuration",
        "docs/reference/framework-api",
        "docs/reference/compatibility",
        "docs/reference/api/*",
        "docs/reference/*",
    ],
    "Explanation": ["docs/explanation/*", "docs/performance"],
    "Examples and plugins": [
        "examples/*/README",
        "examples/traces/*/README",
        "plugins/*/README",
        "plugins/*/CHANGELOG",
    ],
    "Project": ["CONTRIBUTING", "tests/README", "tests/*/*/README", "changelog.d/README", "CHANGELOG"],
}


def add_contents(app: Sphinx, docname: str, content: list[str]) -> None:
    """Append a hidden table of contents for each caption to the first page."""
    if docname != app.config.root_doc:
        return
    for caption, entries in CONTENTS.items():
        options = [":hidden:", ":glob:", ":titlesonly:", *([f":caption: {caption}"] if caption else [])]
        content[0] += "\n".join(["\n\n```{toctree}", *options, "", *(f"/{entry}" for entry in entries), "```"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
