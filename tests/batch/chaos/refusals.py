"""Refusals of writes about pods, for a while: as admission policies, webhooks and missing rights give them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from kube_testserver import errors
from kube_testserver.serving.faults import Fault
from tests.batch.chaos.mortal_scheduler import WRITES

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["REASONS", "REFUSED", "Refusal"]

#: The kinds of writes that are refused, and what the API server calls them.
REFUSED: Final = {
    "bind": 'create resource "pods/binding"',
    "evict": 'delete resource "pods"',
    "pod status": 'patch resource "pods/status"',
}
#: Who refuses.
REASONS: Final = ("policy", "webhook", "rights")
_USER: Final = "system:serviceaccount:kube-system:batch"


def _error(name: str, what: str, who: str) -> errors.StatusError:
    """Return the answer in the words of kube-apiserver."""
    if who == "policy":
        why = "ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: the pods are frozen"
        return errors.forbidden("", "pods", name, why)
    if who == "webhook":
        why = 'admission webhook "frozen.example.com" denied the request: the pods are frozen'
        return errors.StatusError(why, code=403, reason="Forbidden", details={})
    why = f'User "{_USER}" cannot {REFUSED[what]} in API group "" in the namespace "default"'
    return errors.forbidden("", "pods", name, why)


@attrs.define(kw_only=True)
class Refusal(Fault):
    """Answers writes of one kind about some pods with 403. `queue`: that of the pods; "" for all pods."""

    what: str
    who: str
    until: float
    queue: str = ""

    @property
    def title(self) -> str:
        """Return under which name its hits are counted."""
        return f"{self.what}: 403 for {'a queue' if self.queue else 'all'}"

    def cover(self, jobs: Iterable[str] | None) -> None:
        """Refuse writes about the pods of these jobs; None: about all pods."""
        self.method, path = WRITES[self.what]
        names = "[^/]+" if jobs is None else f"(?:{'|'.join(map(re.escape, jobs)) or '(?!)'})-[0-9]+"
        self.path = path.replace("[^/]+", names, 1)

    def response_error(self, path: str) -> errors.StatusError:
        """Return the refusal."""
        found = re.search("/pods/([^/]+)", path)
        return _error(found[1] if found else "", self.what, self.who)
