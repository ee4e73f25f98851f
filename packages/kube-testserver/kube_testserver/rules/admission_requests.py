"""The interface by which the API server asks admission webhooks to change or check a client's write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from kube_testserver.resources.table import Resource

if TYPE_CHECKING:
    from kube_testserver.store import Object

__all__ = ["AdmissionRequest", "Webhooks"]


class AdmissionRequest(msgspec.Struct, frozen=True):
    """A write: the object as it is to be (None: a deletion) and as it was (None: a creation), both with their kind.

    `operation` is ``CREATE``, ``UPDATE`` or ``DELETE``. `kind` is group, version and kind of the object where they are
    not those of the resource.
    """

    operation: str
    resource: Resource
    namespace: str
    name: str
    new: dict[str, object] | None
    old: dict[str, object] | None = None
    subresource: str = ""
    dry_run: bool = False
    kind: tuple[str, str, str] | None = None


class Webhooks(Protocol):
    """The webhooks that are asked while one request is answered."""

    def mutate(self, request: AdmissionRequest) -> Object | None:
        """Return the object as webhooks want it; the object of the request itself if none changes it."""

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse the write if a webhook refuses it."""
