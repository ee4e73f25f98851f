"""Settings of the documentation site, which `make docs` builds into `build/site`.

The source folder is the whole repository, so that links from pages to examples and code also work on the site.
`docs/_site` has our Sphinx extensions.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS / "_site"))

_project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "pyscheduler"
project_copyright = "the pyscheduler authors"
version = release = _project["version"]
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "navigation", "repository_files", "api_pages", "example_files"]
root_doc = "README"
include_patterns = [
    "*.md",
    "changelog.d/README.md",
    "configs/**/README.md",
    "docs/**.md",
    "examples/**README.md",
    "lab/*.md",
    "lab/pyscheduler_lab/data/*/README.md",
    "packages/*/*.md",
    "plugins/*/*.md",
    "tests/README.md",
    "packages/kube-testserver/tests/README.md",
]
exclude_patterns = [".*", "build", "dist", "**/__pycache__", "**/.*"]

# --- Markdown: what a code host shows, and nothing else --------------------------------------------

myst_heading_anchors = 6  # GitHub's anchors of headings; a link to one that does not exist is a warning
myst_all_links_external = False
#: Pages quote configuration that is YAML with a line left out, and JSON with comments.
suppress_warnings: list[str] = []

# --- docstrings --------------------------------------------------------------------------------------

#: Docstrings write code between single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True, "undoc-members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
toc_object_entries = False

# --- HTML that works without a server and without network ------------------------------------------

html_theme = "furo"
html_title = f"pyscheduler {release}"
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # a browser must not fetch pages that were opened as files
html_additional_pages = {"index": "index.html"}
html_static_path: list[str] = []
templates_path = ["_site/templates"]

# --- `make docs-links` -------------------------------------------------------------------------------

linkcheck_timeout = 20
linkcheck_retries = 2
