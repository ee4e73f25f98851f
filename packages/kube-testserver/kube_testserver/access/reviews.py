"""Answer reviews (questions about users and permissions), and issue tokens of service accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_objects.times import format_time
from kube_testserver import errors
from kube_testserver.access.attributes import Attributes
from kube_testserver.access.tokens import AUDIENCE, BadTokenError
from kube_testserver.access.users import User
from kube_testserver.errors import FieldProblem
from kube_testserver.rules.validation import check_body, fit

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_testserver.access.gate import AccessGate
    from kube_testserver.registry import Registry
    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object, Record

__all__ = ["REVIEWS", "request_token", "review"]

_SHORTEST_SECONDS: Final = 600
_LONGEST_SECONDS: Final = 1 << 32
_DEFAULT_SECONDS: Final = 3600
_EXACTLY_ONE: Final = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_SYSTEM_METADATA: Final = ("managedFields", "creationTimestamp")


def review(gate: AccessGate, resource: Resource, user: User, namespace: str, body: Object, *, now: float) -> Object:
    """Answer a review that `user` asks for; refuse (400, 422) one that makes no sense. `now` is since the epoch."""
    body = fit(resource, body)
    answered = REVIEWS[resource.plural](gate, user, namespace, body)
    head: Object = {"kind": resource.kind, "apiVersion": resource.api_version}
    metadata = {name: value for name, value in (body.get("metadata") or {}).items() if value}
    if resource.plural == "selfsubjectreviews":
        metadata = {"creationTimestamp": format_time(now)}
    return {**head, "metadata": metadata, **answered}


def _review_self(_gate: AccessGate, user: User, _namespace: str, _body: Object) -> Object:
    return {"status": {"userInfo": user.as_info()}}


def _review_token(gate: AccessGate, _user: User, _namespace: str, body: Object) -> Object:
    spec = body.get("spec") or {}
    if not spec.get("token"):
        raise errors.bad_request("token is required for TokenReview in authentication")
    wanted = tuple(spec.get("audiences") or (AUDIENCE,))
    try:
        found, audiences = gate.check_token(spec["token"], wanted)
    except BadTokenError as error:
        return {"spec": spec, "status": {"user": {}, "error": str(error)}}
    status = {"authenticated": True, "user": found.as_info(), "audiences": list(audiences)}
    return {"spec": spec, "status": status}


def _review_own_rules(gate: AccessGate, user: User, _namespace: str, body: Object) -> Object:
    namespace = (body.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise errors.bad_request("no namespace on request")
    rules, problem = gate.authorizer.rules_for(user, namespace)
    status: Object = {
        "resourceRules": [
            _picked(rule, "verbs", "apiGroups", "resources", "resourceNames") for rule in rules if rule.get("resources")
        ],
        "nonResourceRules": [
            _picked(rule, "verbs", "nonResourceURLs") for rule in rules if rule.get("nonResourceURLs")
        ],
        "incomplete": False,
    }
    if problem:
        status["evaluationError"] = problem
    return {"spec": {}, "status": status}


REVIEWS: Final[dict[str, Callable[[AccessGate, User, str, Object], Object]]] = {
    "selfsubjectreviews": _review_self,
    "tokenreviews": _review_token,
    "subjectaccessreviews": lambda gate, _, __, body: _reviewed(gate, "SubjectAccessReview", body, None),
    "selfsubjectaccessreviews": lambda gate, user, _, body: _reviewed(gate, "SelfSubjectAccessReview", body, user),
    "selfsubjectrulesreviews": _review_own_rules,
}


def _picked(rule: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: rule[name] for name in names if rule.get(name)}


def _reviewed(gate: AccessGate, kind: str, body: Object, user: User | None) -> Object:
    """Answer whether `user` (None: the one that the review names) may do what the review names."""
    spec = body.get("spec") or {}
    of_resource, of_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    metadata = {n: value for n, value in (body.get("metadata") or {}).items() if value and n not in _SYSTEM_METADATA}
    both, none = of_resource is not None and of_path is not None, of_resource is None and of_path is None
    nobody = user is None and not spec.get("user") and not spec.get("groups")
    checks = (
        (both, "spec.nonResourceAttributes", of_path, "cannot be specified in combination with resourceAttributes"),
        (none, "spec.resourceAttributes", None, _EXACTLY_ONE),
        (nobody, "spec.user", "", "at least one of user or group must be specified"),
        (metadata, "metadata", metadata, "must be empty"),
    )
    problems = [FieldProblem.invalid(path, value, why) for wrong, path, value, why in checks if wrong]
    if problems:
        raise errors.invalid("authorization.k8s.io", kind, "", problems)
    if user is None:
        user = User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()))
    decision = gate.authorizer.authorize(user, _asked(of_resource, of_path))
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {"spec": spec, "status": status}


def _asked(of_resource: dict[str, Any] | None, of_path: dict[str, Any] | None) -> Attributes:
    if of_resource is None:
        of_path = of_path or {}
        return Attributes(of_path.get("verb") or "", of_path.get("path") or "")
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: of_resource.get(name) or "" for name in names})


# --- tokens for service accounts -----------------------------------------------------------------


def request_token(gate: AccessGate, registry: Registry, account: Record, body: Object) -> Object:
    """Answer a TokenRequest for a service account; refuse (400, 404, 409, 422) what cannot be granted."""
    check_body(body, "authentication.k8s.io", "v1", "TokenRequest")
    metadata, spec = body.get("metadata") or {}, dict(body.get("spec") or {})
    for name, own in (("name", account.name), ("namespace", account.namespace)):
        if metadata.get(name) not in (None, "", own):
            why = f"must match the service account {name} if specified"
            problem = FieldProblem.invalid(f"metadata.{name}", metadata[name], why)
            raise errors.invalid("authentication.k8s.io", "TokenRequest", account.name, [problem])
    if metadata.get("uid") not in (None, "", account.uid):
        why = (
            f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account "
            f"({account.uid})"
        )
        raise errors.conflict("authentication.k8s.io", "TokenRequest", account.name, why)
    seconds = spec.setdefault("expirationSeconds", _DEFAULT_SECONDS)
    if seconds is None:
        seconds = spec["expirationSeconds"] = _DEFAULT_SECONDS
    if not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
        why = "less than 10 minutes" if seconds < _SHORTEST_SECONDS else "larger than 2^32 seconds"
        problem = FieldProblem.invalid("spec.expirationSeconds", seconds, f"may not specify a duration {why}")
        raise errors.invalid("authentication.k8s.io", "TokenRequest", "", [problem])
    spec["audiences"] = list(spec.get("audiences") or (AUDIENCE,))
    pod = _bound_pod(registry, account, spec.get("boundObjectRef"))
    now = registry.wall()
    token = gate.issuer.issue(account, expires_seconds=seconds, audiences=tuple(spec["audiences"]), pod=pod)
    own_metadata = {"name": account.name, "namespace": account.namespace, "uid": account.uid}
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {**own_metadata, "creationTimestamp": format_time(now)},
        "spec": {"boundObjectRef": None, **spec},
        "status": {"token": token, "expirationTimestamp": format_time(now + seconds)},
    }


def _bound_pod(registry: Registry, account: Record, ref: dict[str, Any] | None) -> Record | None:
    """Return the pod that a token is to be bound to, None where it is bound to nothing."""
    if ref is None:
        return None
    kind, name = ref.get("kind") or "", ref.get("name") or ""
    pods = registry.table.find_kind("v1", "Pod")
    if kind != "Pod" or ref.get("apiVersion") not in (None, "", "v1") or pods is None:
        raise errors.bad_request(f"cannot bind token to object of type {ref.get('apiVersion') or ''}, Kind={kind}")
    pod = registry.get(pods, account.namespace, name)
    if pod.fields.get("spec.serviceAccountName") != account.name:
        raise errors.bad_request(
            f'cannot bind token for serviceaccount "{account.name}" to pod running with different serviceaccount name.'
        )
    if ref.get("uid") not in (None, "", pod.uid):
        why = (
            f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. The object might "
            "have been deleted and then recreated"
        )
        raise errors.conflict("", "Pod", name, why)
    return pod
