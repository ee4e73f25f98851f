"""/flagz and /statusz: text, or an object of `config.k8s.io` for clients that request it in `Accept`.

    Accept: application/json;v=v1beta1;g=config.k8s.io;as=Statusz

The pages name the component `kube-scheduler`, because clients expect that name. CBOR is offered with the feature gate
CBORServingAndStorage. `v1alpha1` is answered with a deprecation warning.

Differs from kube-scheduler: /statusz shows Python's version in place of Go's.

Source: apiserver's server/flagz and server/statusz, with their content negotiation.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import attrs
from aiohttp import web

from pyscheduler.serving.cbor import encode_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["COMPONENT", "Page"]

_GROUP: Final = "config.k8s.io"
_VERSIONS: Final = frozenset({"v1alpha1", "v1beta1"})
_DEPRECATED: Final = frozenset({"v1alpha1"})
_CBOR: Final = "application/cbor"
_STRUCTURED: Final = ("application/json", "application/yaml")
_PLAIN: Final = frozenset({"text/plain", "text/*", "*/*"})
COMPONENT: Final = "kube-scheduler"
_PARAMETER: Final = re.compile(r"\s*([^=\s]+)\s*=\s*\"?([^\"]*?)\"?\s*")


@attrs.frozen
class Page:
    """/flagz or /statusz: its kind, its text, the fields of its object, and whether it is offered in CBOR."""

    kind: str
    text: Callable[[], str]
    fields: Callable[[], Mapping[str, object]]
    with_cbor: bool = False

    def answer(self, accept: str) -> web.Response:
        """Return the page in the preferred accepted form, or 406 if no form is accepted."""
        for media_type, parameters in _clauses(accept or "*/*"):
            if media_type in _PLAIN:
                return web.Response(text=self.text(), headers={"X-Content-Type-Options": "nosniff"})
            version = parameters.get("v", "")
            asked = (parameters.get("g"), parameters.get("as"))
            structured = media_type in _STRUCTURED or (self.with_cbor and media_type == _CBOR)
            if structured and version in _VERSIONS and asked == (_GROUP, self.kind):
                return self._object(media_type, version)
        return self._not_acceptable()

    def _not_acceptable(self) -> web.Response:
        offered = ", ".join([*_STRUCTURED, "text/plain", *([_CBOR] if self.with_cbor else [])])
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"only the following media types are accepted: {offered}",
            "reason": "NotAcceptable",
            "code": 406,
        }
        return web.Response(status=406, text=json.dumps(status, indent=2), content_type="application/json")

    def _object(self, media_type: str, version: str) -> web.Response:
        found = {
            "kind": self.kind,
            "apiVersion": f"{_GROUP}/{version}",
            "metadata": {"name": COMPONENT},
            **self.fields(),
        }
        headers = {"Content-Type": f"{media_type};g={_GROUP};v={version};as={self.kind}"}
        if version in _DEPRECATED:
            text = f"This version of the {self.kind.lower()} endpoint is deprecated. Please use a newer version."
            headers["Warning"] = f'299 - "{text}"'
        return web.Response(body=_written(found, media_type), headers=headers)


def _written(found: Mapping[str, object], media_type: str) -> bytes:
    if media_type == "application/json":
        return json.dumps(found, indent=2, ensure_ascii=False).encode()
    if media_type == _CBOR:
        return encode_object(found)
    import yaml

    text: str = yaml.safe_dump(found, default_flow_style=False, allow_unicode=True)
    return text.encode()


def _clauses(accept: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the media types of an `Accept` header with their parameters, most preferred first."""
    clauses = []
    for clause in accept.split(","):
        media_type, *rest = clause.split(";")
        parameters = {match[1]: match[2] for each in rest if (match := _PARAMETER.fullmatch(each))}
        try:
            wanted = float(parameters.pop("q", "1"))
        except ValueError:
            wanted = 1.0
        clauses.append((wanted, media_type.strip().lower(), parameters))
    clauses.sort(key=lambda clause: -clause[0])
    yield from ((media_type, parameters) for wanted, media_type, parameters in clauses if wanted > 0)
