"""Injected faults: failures between a client and its API server, for tests.

A `Fault` says which requests fail, how often, and how: for example, with an error status or a broken connection.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import attrs

from kube_testserver import errors

if TYPE_CHECKING:
    import random

__all__ = ["Fault", "Faults"]

Loss = Literal["", "request", "answer"]


@attrs.define(kw_only=True)
class Fault:
    """One way for requests to go wrong. `path` is a regular expression that must be found in the URL path.

    Every field that is set narrows or adds: a fault may delay and then fail. `times` None has no limit.
    """

    method: str = ""
    path: str = ""
    times: int | None = None
    probability: float = 1.0
    #: Answer with this status instead of doing anything.
    status: int = 0
    retry_after_seconds: int = 0
    delay_seconds: float = 0.0
    #: ``request``: break the connection before anything is done; ``answer``: do it, and break before the answer.
    lose: Loss = ""
    #: How many requests were hit.
    hits: int = attrs.field(default=0, init=False)

    def response_error(self, path: str) -> errors.StatusError:
        """Return the refusal this fault answers with."""
        if self.status == 409:
            parts = path.rstrip("/").split("/")
            return errors.conflict("", parts[-2] if len(parts) > 1 else "", parts[-1])
        if self.status == 410:
            return errors.expired(errors.LIST_EXPIRED)
        if self.status == 429:
            return errors.too_many_requests(
                "the server has received too many requests and has asked us to try again later",
                self.retry_after_seconds,
            )
        if self.status == 500:
            return errors.internal_error("injected fault")
        return errors.StatusError(
            f"injected fault: status {self.status}", code=self.status, reason=_REASONS.get(self.status, "")
        )


_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable", 504: "Timeout"}


class Faults:
    """The faults a router is to suffer, in the order they were added; the first that hits a request decides."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        """Arm a fault; returns it, so that its `hits` can be read later."""
        if not isinstance(fault, Fault):
            raise TypeError(
                f"faults.add() takes a Fault, not {type(fault).__name__}; write Fault(path=..., status=403)"
            )
        if fault.method != fault.method.upper():
            raise ValueError(f'no request has the method {fault.method}; write method="{fault.method.upper()}"')
        if fault.lose not in {"", "request", "answer"}:
            raise ValueError(f'lose="{fault.lose}" breaks nothing; write lose="request" or lose="answer"')
        re.compile(fault.path)
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Let everything go well again."""
        self._faults.clear()

    def choose(self, method: str, path: str) -> Fault | None:
        """Return the fault that hits this request, and count the hit."""
        for fault in self._faults:
            if fault.method and fault.method != method:
                continue
            if fault.times is not None and fault.hits >= fault.times:
                continue
            if fault.path and re.search(fault.path, path) is None:
                continue
            if fault.probability < 1.0 and self._rng.random() >= fault.probability:
                continue
            fault.hits += 1
            return fault
        return None
