"""Show the code of an example on its page, with a link to an archive of the example, for readers without a checkout."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

#: The files that a page shows, with the languages of their colours. The archive has the others, too.
_LANGUAGES: Final = {".py": "python", ".toml": "toml", ".yaml": "yaml"}
#: What tools leave in a folder.
_BUILT: Final = ("build", "dist", "__pycache__")
#: The time of all files in archives, so that equal files make equal archives.
_TIME: Final = (2020, 1, 1, 0, 0, 0)


def files_of(folder: Path) -> list[Path]:
    """Return the files of an example, without those of examples in folders below it."""
    found: list[Path] = []
    for path in sorted(folder.iterdir(), key=lambda each: (each.is_dir(), each.name)):
        if path.is_file():
            found.append(path)
        elif not _is_left_out(path):
            found += files_of(path)
    return found


def _is_left_out(folder: Path) -> bool:
    """Return True for folders of tools, and for folders with a page of their own."""
    name = folder.name
    is_hidden = name.startswith(".") and name != ".github"
    return is_hidden or name in _BUILT or name.endswith(".egg-info") or (folder / "README.md").exists()


def examples(app: Sphinx) -> Iterator[tuple[str, Path, list[Path]]]:
    """Yield the page, the folder and the shown files of each example that has some."""
    for docname in sorted(app.env.found_docs):
        if docname.startswith("examples/") and docname.endswith("/README"):
            folder = (Path(app.srcdir) / docname).parent
            shown = [path for path in files_of(folder) if path.suffix in _LANGUAGES and path.stat().st_size]
            if shown:
                yield docname, folder, shown


def add_files(app: Sphinx, docname: str, content: list[str]) -> None:
    """Append a section with the files to the page of an example."""
    for name, folder, shown in examples(app) if docname.startswith("examples/") else ():
        if name != docname:
            continue
        archive = f'<a href="../{folder.name}.zip" download>{folder.name}.zip</a>'
        content[0] += f"\n\n## Files\n\n<p>{archive} has all files of this example. {_usage(folder)}</p>\n"
        for path in shown:
            place = f"/{path.relative_to(app.srcdir).as_posix()}"
            options = f":language: {_LANGUAGES[path.suffix]}"
            heading = f"### `{path.relative_to(folder).as_posix()}`"
            content[0] += f"\n{heading}\n\n```{{literalinclude}} {place}\n{options}\n```\n"


def _usage(folder: Path) -> str:
    """Return how a reader without a checkout installs and tests an example, as HTML."""
    commands = []
    if (folder / "pyproject.toml").exists():
        commands.append("<code>pip install .</code> installs it")
    if (folder / "tests").exists():
        commands.append("<code>python -m pytest</code> runs its tests")
    return f"In the unpacked folder, {', and '.join(commands)}." if commands else ""


def write_archives(app: Sphinx, error: Exception | None) -> None:
    """Write the archive of each example beside its folder in the site."""
    if error is not None or app.builder.name != "html":
        return
    for _, folder, _ in examples(app):
        site = (Path(app.outdir) / folder.relative_to(app.srcdir)).with_name(f"{folder.name}.zip")
        with zipfile.ZipFile(site, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files_of(folder):
                entry = zipfile.ZipInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}", _TIME)
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", add_files)
    app.connect("build-finished", write_archives)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
