"""Read objects from YAML: request bodies, and files with many documents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from kube_testserver import errors
from kube_testserver.store import decode

if TYPE_CHECKING:
    from kube_testserver.store import Object

__all__ = ["UNREADABLE", "decode_yaml", "load_manifests"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


#: What PyYAML raises for a text: its own errors, and those of a scalar that its tag does not fit, or of deep nesting.
UNREADABLE: Final = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)


class _Loader(_LOADER):  # type: ignore[misc]  # chosen at run time
    """A safe loader that leaves timestamps as the text they are."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _LOADER.yaml_implicit_resolvers.items()
}


def decode_yaml(body: bytes) -> Object:
    """Return the object of a one-document body, or refuse it (400)."""
    documents = load_manifests(body)
    if len(documents) != 1:
        raise errors.bad_request(f"the body holds {len(documents)} objects; send one")
    return documents[0]


def _load_json(text: str | bytes) -> list[Any] | None:
    """Return the one document of a text that is JSON, in a hundredth of the time YAML would take."""
    raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if not raw.lstrip().startswith(b"{"):
        return None
    try:
        return [decode(raw)]
    except ValueError:
        return None


def load_manifests(text: str | bytes) -> list[Object]:
    """Return the objects of a YAML (or JSON) text, those of a `List` one by one; refuse (400) what cannot be read."""
    objects: list[Object] = []
    documents = _load_json(text)
    if documents is None:
        try:
            documents = [one for one in yaml.load_all(text, _Loader) if one is not None]
        except UNREADABLE as error:
            # PyYAML calls a text that is no file by its type, and draws the place in a line of its own.
            summary = " ".join(re.sub(r'in "<[\w ]+>",', "at", str(error)).removesuffix("^").split())
            raise errors.bad_request(f"error converting YAML to JSON: {summary}") from error
    for document in documents:
        if not isinstance(document, dict):
            raise errors.bad_request(f"a YAML document holds {type(document).__name__}, not an object")
        if document.get("kind") == "List" and isinstance(document.get("items"), list):
            objects += document["items"]
        else:
            objects.append(document)
    return objects
