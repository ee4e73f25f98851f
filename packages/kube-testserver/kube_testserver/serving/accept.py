"""Choose the format of an answer by the client's Accept header."""

from __future__ import annotations

import functools
from enum import Enum, auto

from kube_testserver.errors import StatusError

__all__ = ["Form", "accepted_form"]


class Form(Enum):
    """The forms in which an answer can be given."""

    JSON = auto()
    TABLE = auto()
    METADATA = auto()
    DISCOVERY_V2 = auto()


_TRANSFORMS = {
    ("Table", "meta.k8s.io"): Form.TABLE,
    ("PartialObjectMetadata", "meta.k8s.io"): Form.METADATA,
    ("PartialObjectMetadataList", "meta.k8s.io"): Form.METADATA,
    ("APIGroupDiscoveryList", "apidiscovery.k8s.io"): Form.DISCOVERY_V2,
}


@functools.lru_cache(maxsize=256)
def accepted_form(accept: str, *, discovery: bool = False) -> Form:
    """Return the first form in an Accept header that can be given here; refuse (406) when there is none.

    The aggregated discovery forms count only with `discovery`, the forms of objects only without.
    """
    if not accept:
        return Form.JSON
    for clause in accept.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        if media_type not in ("application/json", "application/*", "*/*"):
            continue
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        kind = values.get("as")
        if kind is None:
            return Form.JSON
        form = _TRANSFORMS.get((kind, values.get("g", "")))
        if form is None or (form is Form.DISCOVERY_V2) is not discovery:
            continue
        if form is Form.DISCOVERY_V2 and values.get("v") != "v2":
            continue
        return form
    raise StatusError(
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf",
        code=406,
        reason="NotAcceptable",
    )
