"""Check the built site: links, files that are loaded from the network, the search index, and the API reference.

Run `python docs/_site/check.py build/site`.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import public_api

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINK: Final = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"')
_ID: Final = re.compile(r'\bid="([^"]+)"')
#: What a browser loads to show a page.
_LOADED: Final = re.compile(r'<(?:script|img|iframe|source)\b[^>]*?\bsrc="([^"]*)"|<link\b[^>]*?\bhref="([^"]*)"')
#: Words that a reader will look for, and a page that the index must then name.
_SEARCHES: Final = {
    "permit": "docs/how-to/write-a-plugin",
    "backoff": "docs/reference/configuration",
    "capacity_label": "examples/15-cookbook/cost/README",  # in the code of an example
}


@cache
def text(page: Path) -> str:
    """Return the HTML of a page."""
    return page.read_text(encoding="utf-8")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the places in a page to which links can lead."""
    return frozenset(unescape(each) for each in _ID.findall(text(page)))


def broken_links(site: Path) -> Iterator[str]:
    """Yield a line for each link that leads to no page or to no place in it, and for each file that is missing."""
    for page in sorted(site.rglob("*.html")):
        loaded = {first or second for first, second in _LOADED.findall(text(page))}
        for uri in sorted({*_LINK.findall(text(page)), *loaded}):
            name = page.relative_to(site)
            if re.match(r"[a-z]+:|//", uri):
                if uri in loaded:
                    yield f"{name}: loads {uri} from the network"
                continue
            path, _, fragment = unquote(unescape(uri)).partition("#")
            target = page.parent / path.partition("?")[0] if path else page
            if not target.is_file():
                yield f"{name}: no file for the link {uri}"
            elif fragment and target.suffix == ".html" and fragment not in anchors(target.resolve()):
                yield f"{name}: no place for the link {uri}"


def missing_searches(site: Path) -> Iterator[str]:
    """Yield a line for each word that the search would not find; the index is a script, which needs no server."""
    script = (site / "searchindex.js").read_text(encoding="utf-8")
    found = re.fullmatch(r"Search\.setIndex\((.*)\)\s*", script, re.DOTALL)
    if found is None:
        yield "searchindex.js: not the script that the search page loads"
        return
    index = json.loads(found[1])
    for word, page in _SEARCHES.items():
        numbers = index["titleterms"].get(word, index["terms"].get(word, []))
        numbers = numbers if isinstance(numbers, list) else [numbers]
        if page not in {index["docnames"][number] for number in numbers}:
            yield f"searchindex.js: {word!r} does not lead to {page}"


def missing_names(site: Path) -> Iterator[str]:
    """Yield a line for each public name that the API reference does not describe."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    described = {line.partition(" ")[0] for line in zlib.decompress(inventory).decode().splitlines()}
    ends = {".".join(path.split(".")[-count:]) for path in described for count in (1, 2)}
    for path in sorted(public_api.recorded()):
        *_, owner, name = path.split(".")
        wanted = f"{owner}.{name}" if owner[0].isupper() else name
        if wanted not in ends:
            yield f"API reference: no {path}"


def main(site: Path) -> int:
    """Print what is wrong with a site; return the number of lines."""
    lines = [*broken_links(site), *missing_searches(site), *missing_names(site)]
    for line in lines:
        print(f"error: {line}", file=sys.stderr)  # noqa: T201 - a command
    return len(lines)


if __name__ == "__main__":
    sys.exit(bool(main(Path(sys.argv[1]).resolve())))
