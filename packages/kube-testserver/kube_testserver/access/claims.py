"""Who may allocate: a claim's allocation and reservations take a permission beside that to write its status.

Drivers write into the status of claims, too, and shall not be able to hand out devices. So a change of
`status.allocation` or `status.reservedFor` takes the verb of the request on ``resourceclaims/binding``, in all
namespaces. Source: Kubernetes 1.36, feature gate DRAResourceClaimGranularStatusAuthorization, `pkg/registry/resource`.
Differs from the real server: `status.devices` takes nothing beside, where it asks for ``resourceclaims/driver``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_testserver import errors
from kube_testserver.access.attributes import Attributes, not_authorized
from kube_testserver.resources.devices import CLAIMS

if TYPE_CHECKING:
    from kube_testserver.access.authorizer import RbacAuthorizer
    from kube_testserver.access.users import User
    from kube_testserver.store import Object

__all__ = ["check_binding"]

_BOUND: Final = ("allocation", "reservedFor")


def check_binding(authorizer: RbacAuthorizer, user: User, verb: str, before: Object, new: Object) -> None:
    """Refuse (422) a change of allocation or reservations by a user without the permission to bind claims."""
    old, status = before.get("status") or {}, new.get("status") or {}
    if all(old.get(name) == status.get(name) for name in _BOUND):
        return
    asked = Attributes(verb, group=CLAIMS.group, resource=CLAIMS.plural, subresource="binding")
    decision = authorizer.authorize(user, asked, note=True)
    if decision.allowed:
        return
    refusal = not_authorized(user.name, asked, decision.reason)
    authorizer.usage.refused(user.name, str(refusal))
    why = (
        'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
        f'verb="{verb}" permission: {refusal}'
    )
    problem = errors.FieldProblem.forbidden("status.allocation", why)
    raise errors.invalid(CLAIMS.group, CLAIMS.kind, new["metadata"]["name"], [problem])
