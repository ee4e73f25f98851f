"""AdmissionReview: read what the API server sends to an admission webhook, and answer it.

Source: Kubernetes, `staging/src/k8s.io/api/admission/v1/types.go`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pyscheduler.api import DecodeError, Pod, Wire, decode

__all__ = ["AdmissionRequest", "answer", "read_review"]

_VERSION: Final = "admission.k8s.io/v1"


class AdmissionRequest(Wire):
    """A request to create a pod; other objects are not read."""

    uid: str = ""
    namespace: str = ""
    operation: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")

    def pod(self) -> Pod:
        """Return the pod; raise `DecodeError` if it cannot be read."""
        pod = decode(Pod, bytes(self.object))
        if pod.namespace:
            return pod
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace=self.namespace))


class _Review(Wire):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


def read_review(body: bytes) -> AdmissionRequest:
    """Return the request in a body; raise `DecodeError` if it is none of this version."""
    review = decode(_Review, body)
    if review.api_version != _VERSION or review.request is None or not review.request.uid:
        raise DecodeError(f"expected an AdmissionReview of {_VERSION} with a request and its uid")
    return review.request


def answer(request: AdmissionRequest, *, refusal: str = "", warning: str = "") -> bytes:
    """Return the body of the answer: the request is allowed unless there is a refusal. The client sees a warning."""
    response: dict[str, object] = {"uid": request.uid, "allowed": not refusal}
    if refusal:
        response["status"] = {"status": "Failure", "code": 403, "reason": "Forbidden", "message": refusal}
    if warning:
        response["warnings"] = [warning]
    return msgspec.json.encode({"apiVersion": _VERSION, "kind": "AdmissionReview", "response": response})
