"""The admission webhooks of one request: their answers so far, and the calls that are still to be made."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.http import Response
from kube_testserver import errors
from kube_testserver.access.users import ANONYMOUS
from kube_testserver.patching.json_patches import PatchError, apply_json_patch
from kube_testserver.resources.webhooks import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from kube_testserver.serving.webhooks.matching import Webhook, matching_webhooks
from kube_testserver.serving.webhooks.reviews import (
    Answer,
    CallError,
    denial,
    failure,
    read_answer,
    review_of,
    review_version,
)
from kube_testserver.store import encode
from kube_testserver.wire import warning_header

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kube_testserver.access.users import User
    from kube_testserver.registry import Registry
    from kube_testserver.rules.admission_requests import AdmissionRequest
    from kube_testserver.serving.watching import WatchStream
    from kube_testserver.store import Object

__all__ = ["AdmissionRun", "ReviewsNeededError", "has_webhooks"]

#: How often a request is answered anew; each time follows from a call, or from an object that changed meanwhile.
_MAX_ROUNDS: Final = 100
_ALWAYS_CHANGED: Final = "the object changed each time while webhooks reviewed it; please try again"


class _Call(msgspec.Struct, frozen=True):
    """One call that is to be made: `key` tells it from the others of its request."""

    key: bytes
    webhook: Webhook
    review: dict[str, Any]
    may_patch: bool


class ReviewsNeededError(Exception):
    """A request cannot be answered before these calls are made."""

    def __init__(self, needed: list[_Call]) -> None:
        self.needed = needed
        super().__init__(f"{len(needed)} webhooks are to be called")


def has_webhooks(registry: Registry) -> bool:
    """Return True if any webhook is configured."""
    # Asked at each write, so without a loop.
    return len(registry.collection(MUTATING_WEBHOOKS)) > 0 or len(registry.collection(VALIDATING_WEBHOOKS)) > 0


class AdmissionRun:
    """Answers a request of a client with the answers of webhooks; `query` has its options."""

    def __init__(self, registry: Registry, query: Mapping[str, str]) -> None:
        self._registry = registry
        self._query = query
        self._answers: dict[bytes, Answer | CallError] = {}
        self._warnings: dict[str, None] = {}
        #: On whose behalf the request is made, once that is known.
        self.user: User = ANONYMOUS

    async def answer(self, answer: Callable[[], Response | WatchStream]) -> Response | WatchStream:
        """Return what `answer` returns once all webhooks that it asks have answered, with their warnings."""
        now, seed = self._registry.wall(), self._registry.draw_seed()
        for _ in range(_MAX_ROUNDS):
            self._warnings.clear()
            try:
                with self._registry.reviewed_by(self, now=now, seed=seed):
                    answered = answer()
            except ReviewsNeededError as error:
                await asyncio.gather(*(self._call(one) for one in error.needed))
            else:
                return self._with_warnings(answered)
        raise errors.StatusError(_ALWAYS_CHANGED, code=409, reason="Conflict")

    # --- what the registry asks --------------------------------------------------------------------

    def mutate(self, request: AdmissionRequest) -> Object | None:
        """Return the object after the patches of all webhooks; each sees those of the webhooks before it."""
        for webhook in matching_webhooks(self._registry, MUTATING_WEBHOOKS, request):
            answer = self._known([self._call_of(webhook, request, may_patch=True)])[0]
            if answer is None:
                continue
            if not answer.allowed:
                raise denial(webhook, answer)
            if answer.patch and request.new is not None:
                request = msgspec.structs.replace(request, new=_patched(request.new, answer.patch))
        return request.new

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the write if any webhook does; all are asked at the same time."""
        webhooks = list(matching_webhooks(self._registry, VALIDATING_WEBHOOKS, request))
        answers = self._known([self._call_of(webhook, request, may_patch=False) for webhook in webhooks])
        for webhook, answer in zip(webhooks, answers, strict=True):
            if answer is not None and not answer.allowed:
                raise denial(webhook, answer)

    # --- calls -------------------------------------------------------------------------------------

    def _call_of(self, webhook: Webhook, request: AdmissionRequest, *, may_patch: bool) -> _Call:
        review = review_of(request, self.user, self._query)
        key = encode([webhook.configuration, webhook.name, may_patch, review])
        return _Call(key, webhook, review, may_patch)

    def _known(self, wanted: list[_Call]) -> list[Answer | None]:
        """Return the answers to calls, None for a failure that is ignored; `ReviewsNeededError` if one is missing."""
        missing = [call for call in wanted if call.key not in self._answers]
        if missing:
            raise ReviewsNeededError(missing)
        return [self._answer_to(call) for call in wanted]

    def _answer_to(self, call: _Call) -> Answer | None:
        answer = self._answers[call.key]
        if isinstance(answer, Answer):
            self._warnings |= dict.fromkeys(answer.warnings)
            return answer
        if call.webhook.ignores_failures:
            return None
        raise failure(call.webhook, answer)

    async def _call(self, call: _Call) -> None:
        from kube_testserver.serving.webhooks import calls  # noqa: PLC0415 - slow, and seldom needed

        version, uid = review_version(call.webhook), str(uuid.uuid4())
        head = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}"}
        body = encode({**head, "request": {"uid": uid, **call.review}})
        try:
            raw = await calls.call(self._registry, call.webhook, body)
            self._answers[call.key] = read_answer(raw, uid=uid, version=version, may_patch=call.may_patch)
        except CallError as error:
            self._answers[call.key] = error

    def _with_warnings(self, answer: Response | WatchStream) -> Response | WatchStream:
        if not self._warnings or not isinstance(answer, Response):
            return answer
        given = answer.headers.get("warning")
        warnings = ", ".join([*([given] if given else []), warning_header(self._warnings)])
        return Response(answer.status, answer.body, {**answer.headers, "warning": warnings})


def _patched(obj: Object, patch: list[dict[str, Any]]) -> Object:
    try:
        patched = apply_json_patch(obj, patch)
    except PatchError as error:
        raise errors.internal_error(str(error)) from error
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise errors.internal_error("the patch of a webhook leaves no object")
    return patched
