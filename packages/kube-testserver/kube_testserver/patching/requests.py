"""Carry out PATCH requests: read the patch, and apply it to an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.meta import KubeObject
from kube_objects.times import format_time
from kube_testserver import errors
from kube_testserver.manifests import decode_yaml
from kube_testserver.patching.json_patches import PatchError, apply_json_patch, apply_merge_patch
from kube_testserver.patching.server_side_apply import apply_configuration
from kube_testserver.patching.strategic_merge import apply_strategic_patch
from kube_testserver.rules import validation
from kube_testserver.schema.merge_keys import merge_lists
from kube_testserver.schema.unknown_fields import FieldCheck, field_check
from kube_testserver.store import decode, encode
from kube_testserver.wire import go_json_error, go_text, is_true

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_testserver.registry import Registry
    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object, Record

__all__ = ["PatchOptions", "apply_patch", "patched_scale", "read_patch_options"]

_JSON_PATCH: Final = "application/json-patch+json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"
_CUSTOM_TYPES: Final = (_JSON_PATCH, _MERGE_PATCH, _APPLY)
_ALL_TYPES: Final = (*_CUSTOM_TYPES, _STRATEGIC_PATCH)


class PatchOptions(msgspec.Struct, frozen=True):
    """The settings of a patch: its type, what of the object it may change, and what it says about fields.

    `force` lets an apply take fields from others; None where nothing was said about it.
    """

    content_type: str
    fields: FieldCheck
    subresource: str = ""
    dry_run: bool = False
    force: bool | None = None


def read_patch_options(query: Mapping[str, str], content_type: str, *, subresource: str) -> PatchOptions:
    """Read the options of a patch; refuse (422) what contradicts itself."""
    fields = field_check(query, "PatchOptions")
    force = query.get("force")
    problems = []
    if content_type != _APPLY and force is not None:
        problems.append(errors.FieldProblem.forbidden("force", "may not be specified for non-apply patch"))
    if content_type == _APPLY and not fields.manager:
        problems.append(errors.FieldProblem.required("fieldManager", "is required for apply patch"))
    if problems:
        raise errors.invalid("meta.k8s.io", "PatchOptions", "", problems)
    return PatchOptions(
        content_type, fields, subresource, bool(query.get("dryRun")), None if force is None else is_true(force)
    )


def apply_patch(
    registry: Registry,
    resource: Resource,
    namespace: str,
    name: str,
    body: bytes,
    options: PatchOptions,
) -> tuple[Record, bool]:
    """Patch the object of that name; return what is stored, and whether it was created (by an apply)."""
    content_type, subresource = options.content_type, options.subresource
    fields, dry_run = options.fields, options.dry_run
    _check_type(resource, content_type)
    record = registry.collection(resource).get(resource.key(namespace, name))
    if content_type == _APPLY:
        return _apply(registry, resource, (namespace, name), record, decode_yaml(body), options)
    patch = _decode_patch(body)
    if record is None:
        raise errors.not_found(resource.storage_group, resource.plural, name)
    before = resource.view(record.decode())
    patched = _patched(resource, before, patch, content_type)
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise errors.bad_request(f"the patch leaves no {resource.kind}")
    fields.patch = go_text(patch) if content_type == _STRATEGIC_PATCH else encode(patched).decode()
    return registry.update(resource, namespace, name, patched, subresource=subresource, dry_run=dry_run, fields=fields)


def patched_scale(resource: Resource, scale: Object, body: bytes, content_type: str) -> Any:
    """Return a scale after a patch of it; an apply counts as a merge, for it has one field to set."""
    content_type = content_type.partition(";")[0].strip()
    _check_type(resource, content_type)
    if content_type == _APPLY:
        return apply_merge_patch(scale, decode_yaml(body))
    return _patched(resource, scale, _decode_patch(body), content_type)


def _apply(
    registry: Registry,
    resource: Resource,
    place: tuple[str, str],
    record: Record | None,
    config: Object,
    options: PatchOptions,
) -> tuple[Record, bool]:
    """Apply a configuration to the object at a place (namespace and name), which may not be there yet."""
    namespace, name = place
    if not config.get("kind"):
        raise errors.bad_request(f"Object 'Kind' is missing in '{encode(config).decode()}'")
    validation.check_fits(config, (KubeObject,), resource.kind, resource.version)
    live: Object = {}
    if record is not None:
        live = resource.view(record.decode())
    elif options.subresource:
        raise errors.not_found(resource.storage_group, resource.plural, name)
    fields = options.fields
    config = {**config, "metadata": {"name": name, **(config.get("metadata") or {})}}
    applied = apply_configuration(
        resource,
        live,
        config,
        manager=fields.manager,
        subresource=options.subresource,
        force=bool(options.force),
        now=format_time(registry.wall()),
    )
    fields.managed = applied["metadata"].pop("managedFields", [])
    if record is None:
        return registry.create(resource, namespace, applied, dry_run=options.dry_run, fields=fields), True
    return registry.update(
        resource,
        namespace,
        name,
        applied,
        subresource=options.subresource,
        dry_run=options.dry_run,
        fields=fields,
    )


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
        if content_type == _STRATEGIC_PATCH:
            return apply_strategic_patch(merge_lists(resource.group, resource.version, resource.kind), before, patch)
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
