"""PATCH: the kinds of patch, and what a patched object goes through before it is stored.

A patch is applied to the object as its client sees it, kind and version included; the result then takes the same way as
a PUT. Server-side apply is taken as a merge that creates what is missing.

Differs from the real server: fields have no managers, so an apply never conflicts and never removes a field because its
manager stopped mentioning it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler.cluster.embedded import errors, validation
from pyscheduler.cluster.embedded.manifests import decode_yaml
from pyscheduler.cluster.embedded.patch import PatchError, apply_json_patch, apply_merge_patch
from pyscheduler.cluster.embedded.store import decode
from pyscheduler.cluster.embedded.strategic import apply_strategic_patch
from pyscheduler.cluster.embedded.wire import go_json_error

if TYPE_CHECKING:
    from pyscheduler.cluster.embedded.registry import Registry
    from pyscheduler.cluster.embedded.resources import Resource
    from pyscheduler.cluster.embedded.store import Object, Record

__all__ = ["apply_patch"]

_JSON_PATCH: Final = "application/json-patch+json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"
_CUSTOM_TYPES: Final = (_JSON_PATCH, _MERGE_PATCH, _APPLY)
_ALL_TYPES: Final = (*_CUSTOM_TYPES, _STRATEGIC_PATCH)


def apply_patch(
    registry: Registry,
    resource: Resource,
    namespace: str,
    name: str,
    body: bytes,
    *,
    content_type: str,
    subresource: str = "",
    dry_run: bool = False,
) -> tuple[Record, bool]:
    """Patch the object of that name; return what is stored, and whether it was created (by an apply)."""
    _check_type(resource, content_type)
    patch = decode_yaml(body) if content_type == _APPLY else _decode_patch(body)
    record = registry.collection(resource).get(resource.key(namespace, name))
    if record is None:
        if content_type == _APPLY and not subresource:
            validation.check_shape(resource, patch)
            patch = {**patch, "metadata": {**(patch.get("metadata") or {}), "name": name}}
            return registry.create(resource, namespace, patch, dry_run=dry_run), True
        raise errors.not_found(resource.storage_group, resource.plural, name)
    stored = record.decode()
    seen = stored if resource.from_stored is None else resource.from_stored(stored)
    before = {"kind": resource.kind, "apiVersion": resource.api_version, **seen}
    patched = _patched(resource, before, patch, content_type)
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise errors.bad_request(f"the patch leaves no {resource.kind}")
    return registry.update(resource, namespace, name, patched, subresource=subresource, dry_run=dry_run)


def _check_type(resource: Resource, content_type: str) -> None:
    if resource.custom:
        if content_type not in _CUSTOM_TYPES:
            raise errors.unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(_CUSTOM_TYPES)
            )
    elif content_type not in _ALL_TYPES:
        raise errors.unsupported_media_type("415: Unsupported Media Type", details={})


def _decode_patch(body: bytes) -> Any:
    try:
        return decode(body)
    except ValueError as error:
        raise errors.bad_request(f"error decoding patch: {go_json_error(body)}") from error


def _patched(resource: Resource, before: Object, patch: Any, content_type: str) -> Any:
    try:
        if content_type == _JSON_PATCH:
            return apply_json_patch(before, patch)
        if not isinstance(patch, dict):
            raise PatchError("the patch is not an object", malformed=True)
        if content_type == _STRATEGIC_PATCH or (content_type == _APPLY and not resource.custom):
            return apply_strategic_patch(resource.collection, before, patch)
        return apply_merge_patch(before, patch)
    except PatchError as error:
        if error.malformed:
            raise errors.bad_request(str(error)) from error
        raise errors.StatusError(
            "the server rejected our request due to an error in our request",
            code=422,
            reason="Invalid",
            details={},
        ) from error
