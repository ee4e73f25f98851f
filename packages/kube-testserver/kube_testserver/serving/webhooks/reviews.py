"""The AdmissionReview that the server sends to a webhook, and the answer that the webhook returns."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_testserver.errors import StatusError, internal_error
from kube_testserver.store import decode
from kube_testserver.wire import go_json_error, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_testserver.access.users import User
    from kube_testserver.rules.admission_requests import AdmissionRequest
    from kube_testserver.serving.webhooks.matching import Webhook
    from kube_testserver.store import Object

__all__ = ["Answer", "CallError", "denial", "failure", "read_answer", "review_of", "review_version"]

_KIND: Final = "AdmissionReview"
_GROUP: Final = "admission.k8s.io"
_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_VERSIONS: Final = ("v1", "v1beta1")
_BAD_REQUEST: Final = 400


class CallError(Exception):
    """A webhook could not be asked, or gave no proper answer; the text is that of the real server."""


class Answer(msgspec.Struct, frozen=True):
    """The answer of a webhook: `status` explains a refusal, `patch` is a list of operations."""

    allowed: bool
    status: dict[str, Any] = {}
    patch: list[dict[str, Any]] = []
    warnings: list[str] = []


def review_version(webhook: Webhook) -> str:
    """Return the version of the review that a webhook wants."""
    wanted: list[str] = webhook.spec["admissionReviewVersions"]
    return next(version for version in wanted if version in _VERSIONS)


def review_of(request: AdmissionRequest, user: User, query: Mapping[str, str]) -> Object:
    """Return the request of a review, without its uid; `query` has the options of the write."""
    resource = request.resource
    group, version, kind = request.kind or (resource.group, resource.version, resource.kind)
    of_kind = {"group": group, "version": version, "kind": kind}
    of_resource = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    options: Object = {"kind": _OPTIONS[request.operation], "apiVersion": "meta.k8s.io/v1"}
    if request.dry_run:
        options["dryRun"] = ["All"]
    options |= {name: query[name] for name in ("fieldManager", "fieldValidation") if query.get(name)}
    parts: Object = {
        "kind": of_kind,
        "resource": of_resource,
        "subResource": request.subresource,
        "requestKind": of_kind,
        "requestResource": of_resource,
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": request.namespace,
    }
    return {
        **{name: value for name, value in parts.items() if value},
        "operation": request.operation,
        "userInfo": user.as_info(),
        "object": request.new,
        "oldObject": request.old,
        "dryRun": request.dry_run,
        "options": options,
    }


def read_answer(raw: bytes, *, uid: str, version: str, may_patch: bool) -> Answer:
    """Return what a webhook answered to the review with this uid; `CallError` if that is no answer to it."""
    try:
        review = read_object(raw)
    except ValueError as error:
        raise _not_called(str(error)) from error
    wanted, found = f"{_GROUP}/{version}", str(review.get("apiVersion") or "")
    kind = str(review.get("kind") or "")
    if (found, kind) != (wanted, _KIND):
        raise _not_valid(f"expected webhook response of {wanted}, Kind={_KIND}, got {found or '/'}, Kind={kind}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise _not_valid("webhook response was absent")
    if version == "v1" and response.get("uid") != uid:
        raise _not_valid(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    patch, patch_type = response.get("patch"), response.get("patchType")
    if patch and not may_patch:
        raise _not_valid("validating webhook may not return response.patch")
    if patch_type and not may_patch:
        raise _not_valid("validating webhook may not return response.patchType")
    if version == "v1" and bool(patch) is not bool(patch_type):
        absent, present = ("patchType", "patch") if patch else ("patch", "patchType")
        raise _not_valid(f"webhook returned response.{present} but not response.{absent}")
    status = response.get("status")
    return Answer(
        bool(response.get("allowed")),
        status if isinstance(status, dict) else {},
        _operations(patch) if patch else [],
        [str(text) for text in response.get("warnings") or ()],
    )


def _operations(patch: Any) -> list[dict[str, Any]]:
    raw = b""
    try:
        raw = base64.b64decode(patch, validate=True)
        operations = decode(raw)
    except (TypeError, binascii.Error) as error:
        raise _not_called("illegal base64 data in response.patch") from error
    except ValueError as error:
        raise CallError(f"received undecodable patch in webhook response: {go_json_error(raw)}") from error
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise CallError("received undecodable patch in webhook response: it is not a list of operations")
    return operations


def _not_valid(why: str) -> CallError:
    return CallError(f"received invalid webhook response: {why}")


def _not_called(why: str) -> CallError:
    return CallError(f"failed to call webhook: {why}")


def denial(webhook: Webhook, answer: Answer) -> StatusError:
    """Return the refusal of a write that a webhook does not allow: its own status, at least a 400."""
    status = answer.status
    denied_by = f'admission webhook "{webhook.name}" denied the request'
    why = status.get("message") or status.get("reason")
    code = status.get("code")
    return StatusError(
        f"{denied_by}: {why}" if why else f"{denied_by} without explanation",
        code=code if isinstance(code, int) and code >= _BAD_REQUEST else _BAD_REQUEST,
        reason=status.get("reason") or "",
        details=status.get("details"),
    )


def failure(webhook: Webhook, error: CallError) -> StatusError:
    """Return the refusal of a write about which a webhook gave no answer."""
    return internal_error(f'failed calling webhook "{webhook.name}": {error}')
