"""Make links to source files and folders work on the site: each linked file becomes a page with its text."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from pygments.lexers import find_lexer_class_for_filename
from sphinx import addnodes
from sphinx.util import logging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_log = logging.getLogger(__name__)
#: The folder of these pages in the site.
FOLDER = "files"
REFERENCE_TYPE = "repository-file"


def find_links(app: Sphinx, doctree: nodes.document) -> None:
    """Replace links to files that are no pages by references of this extension, before Sphinx copies the files."""
    root = Path(app.srcdir)
    place = (root / app.env.docname).parent
    links = [*doctree.findall(addnodes.download_reference), *doctree.findall(addnodes.pending_xref)]
    for link in links:
        if link.get("reftype") != "myst" or link.get("refdomain"):
            continue
        path = (place / link["reftarget"]).resolve()
        if not path.exists() or not path.is_relative_to(root):
            continue  # Sphinx reports it
        readme = path / "README.md"
        if readme.exists():
            reference = addnodes.pending_xref(
                "",
                *link.children,
                refdomain="doc",
                reftype="myst",
                refexplicit=True,
                refdoc=app.env.docname,
                reftarget=readme.relative_to(root).with_suffix("").as_posix(),
                reftargetid=None,
            )
        else:
            reference = nodes.reference("", "", *link.children, internal=True)
            reference[REFERENCE_TYPE] = path.relative_to(root).as_posix()
        reference.source, reference.line = link.source, link.line
        link.replace_self(reference)


def page_of(path: str) -> str:
    """Return the name of the page that shows a file or folder."""
    return f"{FOLDER}/{path}"


def resolve_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Let the references lead to pages, and remember which pages are needed."""
    wanted = linked_paths(app.env)
    for reference in doctree.findall(nodes.reference):
        if path := reference.get(REFERENCE_TYPE):
            wanted.add(path)
            reference["refuri"] = app.builder.get_relative_uri(docname, page_of(path))


def linked_paths(env: BuildEnvironment) -> set[str]:
    """Return the paths to which pages of this build link."""
    if not hasattr(env, "repository_paths"):
        env.repository_paths = set()
    paths: set[str] = env.repository_paths
    return paths


def make_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each linked file, and for each linked folder with the files in it."""
    root = Path(app.srcdir)
    wanted = linked_paths(app.env)
    folders = [name for name in sorted(wanted) if (root / name).is_dir()]
    for name in folders:
        children = sorted(child for child in (root / name).iterdir() if not child.name.startswith((".", "__")))
        wanted |= {f"{name}/{child.name}" for child in children if child.is_file()}
        yield page_of(name), *page(name, folder_list(app, name, children))
    for name in sorted(wanted.difference(folders)):
        yield page_of(name), *page(name, highlighted(app, root / name))


def page(name: str, body: str) -> tuple[dict[str, Any], str]:
    """Return what Sphinx needs to make a page of the theme."""
    title = html.escape(name)
    return {"title": title, "body": f"<h1>{title}</h1>\n{body}"}, "page.html"


def folder_list(app: Sphinx, name: str, children: list[Path]) -> str:
    """Return links to the files in a folder, and to the pages of the folders in it."""
    items = []
    for child in children:
        path = f"{name}/{child.name}"
        if child.is_file():
            target = page_of(path)
        elif f"{path}/README" in app.env.found_docs:
            target = f"{path}/README"
        else:
            continue
        uri = app.builder.get_relative_uri(page_of(name), target)
        items.append(f'<li><a href="{uri}">{html.escape(child.name)}</a></li>')
    return f"<ul>{''.join(items)}</ul>"


def highlighted(app: Sphinx, path: Path) -> str:
    """Return the text of a file as HTML, with the colours of its language."""
    lexer = find_lexer_class_for_filename(path.name)
    language = lexer.aliases[0] if lexer and lexer.aliases else "text"
    return str(app.builder.highlighter.highlight_block(path.read_text(encoding="utf-8"), language))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-read", find_links, priority=100)  # the collector of downloads comes at 500
    app.connect("doctree-resolved", resolve_links)
    app.connect("html-collect-pages", make_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
