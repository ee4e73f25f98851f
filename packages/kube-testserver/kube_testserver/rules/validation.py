"""Checks that refuse objects before the API server stores them.

The status code is 400 if a value cannot be decoded, and 422 if a decoded value is not allowed. Some checks
of kube-apiserver are missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.codec import strip_nulls
from kube_objects.errors import QuantityError
from kube_objects.names import label_key_errors, label_value_errors
from kube_objects.quantity import parse_quantity
from kube_testserver import errors
from kube_testserver.errors import FieldProblem
from kube_testserver.resources import definitions
from kube_testserver.resources.devices import DEVICE_GROUP
from kube_testserver.resources.rbac import RBAC_GROUP
from kube_testserver.resources.webhooks import WEBHOOK_GROUP
from kube_testserver.rules.devices.claims import quantities_of
from kube_testserver.rules.devices.validation import device_problems
from kube_testserver.rules.names import label_problems, subdomain_problems
from kube_testserver.rules.pod_groups import POD_GROUP_COLLECTIONS, pod_group_problems
from kube_testserver.rules.rbac import rbac_problems
from kube_testserver.rules.secrets import secret_problems
from kube_testserver.rules.webhooks import webhook_problems
from kube_testserver.schema.custom_schemas import has_rules
from kube_testserver.schema.kinds import schema_of
from kube_testserver.schema.shapes import shapes_of
from kube_testserver.schema.unknown_fields import prune

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kube_testserver.resources.table import Resource
    from kube_testserver.schema.kinds import Node
    from kube_testserver.schema.unknown_fields import FieldCheck
    from kube_testserver.store import Object

__all__ = ["check_body", "check_creation", "check_fits", "check_update", "fit"]

_QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_POD_IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_NAMED_BY_LABEL: Final = frozenset({"namespaces", "services"})
_DEFINITION: Final = "CustomResourceDefinition"
_NOTE_LIMIT_BYTES: Final = 1024


# --- shape: what Go's decoder would not take --------------------------------------------------------

_TYPE_ERROR: Final = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<found>[^`]*)` - at `\$\.(?P<path>[^`]*)`")
_GO_NAMES: Final = {"int": "number", "float": "number", "str": "string"}


def fit(resource: Resource, obj: Object, fields: FieldCheck | None = None) -> Object:
    """Return an object reduced to the fields its kind has; refuse (400) one whose JSON has another shape.

    `fields` says what is to be done about others; by default they are dropped silently. Null counts as absent.
    """
    fitting = _known_part(resource, obj, fields)
    for quantity in _quantities(resource, fitting):
        try:
            parse_quantity(quantity)
        except QuantityError as error:
            raise _cannot_handle(resource.kind, resource.version, _QUANTITY_RULE) from error
    return fitting


def _known_part(resource: Resource, obj: Object, fields: FieldCheck | None) -> Object:
    shapes, schema = resource.shapes, resource.fields
    if resource.custom:
        check_fits(obj, shapes, resource.kind, resource.version)
        return obj if schema is None else _pruned(resource, obj, schema, fields)
    if schema is None:
        check_fits(obj, shapes, resource.kind, resource.version)
        return obj
    if resource.kind != _DEFINITION:  # whose schemas go deeper than a type can say
        try:
            _convert(obj, shapes)
        except msgspec.ValidationError:
            pass  # wrong, or only something unknown or null in it: told apart below
        else:
            return obj
    pruned = prune(obj, schema)[0]
    check_fits(pruned, shapes, resource.kind, resource.version)
    return _pruned(resource, obj, schema, fields)


def _pruned(resource: Resource, obj: Object, schema: Node, fields: FieldCheck | None) -> Object:
    pruned, unknown = prune(obj, schema, custom=resource.custom)
    if unknown and fields is not None:
        fields.tell(unknown, kind=resource.kind, version=resource.version)
    return pruned


def check_fits(obj: Object, shapes: Sequence[type], kind: str, version: str) -> None:
    """Refuse (400) what cannot be read as each of `shapes`; null counts as absent."""
    try:
        _convert(obj, shapes)
    except msgspec.ValidationError:
        try:
            _convert(strip_nulls(obj), shapes)
        except msgspec.ValidationError as error:
            raise _not_decodable(kind, version, str(error)) from error


def check_body(obj: Object, group: str, version: str, kind: str) -> None:
    """Refuse (400) a body that is no object of a built-in kind; unknown fields are ignored."""
    schema, shapes = schema_of(group, version, kind), shapes_of(group, version, kind, custom=False)
    assert schema is not None, "the kind is in the table"
    try:
        _convert(obj, shapes)
    except msgspec.ValidationError:
        check_fits(prune(obj, schema)[0], shapes, kind, version)


def _convert(obj: Object, shapes: Sequence[type]) -> None:
    for shape in shapes:
        msgspec.convert(obj, shape)


def _quantities(resource: Resource, obj: Object) -> Iterator[str | int | float]:
    """Yield every quantity of a well-formed pod, node, quota, volume claim or device object."""
    if resource.collection == "nodes":
        status = obj.get("status") or {}
        for name in ("capacity", "allocatable"):
            yield from (status.get(name) or {}).values()
    elif resource.collection == "pods":
        spec = obj.get("spec") or {}
        yield from (spec.get("overhead") or {}).values()
        for owner in (spec, *(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            resources = owner.get("resources")
            if resources:
                yield from (resources.get("requests") or {}).values()
                yield from (resources.get("limits") or {}).values()
    elif resource.collection == "resourcequotas":
        yield from ((obj.get("spec") or {}).get("hard") or {}).values()
    elif resource.collection == "persistentvolumeclaims":
        yield from (((obj.get("spec") or {}).get("resources") or {}).get("requests") or {}).values()
    elif resource.group == DEVICE_GROUP and not resource.custom:
        yield from quantities_of(resource.kind, obj)


def _not_decodable(kind: str, version: str, why: str) -> errors.StatusError:
    found = _TYPE_ERROR.match(why)
    if found is None:
        return _cannot_handle(kind, version, why)
    got = _GO_NAMES.get(found["found"], found["found"])
    expected = _GO_NAMES.get(found["expected"], found["expected"])
    what = f"json: cannot unmarshal {got} into Go struct field {kind}.{found['path']} of type {expected}"
    return _cannot_handle(kind, version, what)


def _cannot_handle(kind: str, version: str, why: str) -> errors.StatusError:
    return errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


# --- validity ---------------------------------------------------------------------------------------


def check_creation(resource: Resource, obj: Object) -> None:
    """Refuse (422) a new object that is wrong, naming every wrong field."""
    _check(resource, obj, [*_name_problems(resource, obj), *_label_problems(obj)], _problems(resource, None, obj))


def check_update(resource: Resource, old: Object, new: Object, *, resizing: bool = False) -> None:
    """Refuse (422) a change of what may not change; `resizing` lets a pod's resources change."""
    of_pod = resource.collection == "pods"
    found = _pod_update_problems(old, new, resizing=resizing) if of_pod else _problems(resource, old, new)
    _check(resource, new, list(_label_problems(new)), found)


def _check(resource: Resource, obj: Object, problems: list[FieldProblem], more: Iterable[FieldProblem]) -> None:
    if resource.kind == _DEFINITION and not problems:
        definitions.check_definition(obj)
        problems += _definition_rule_problems(obj)
    problems += more
    if problems:
        raise errors.invalid(resource.storage_group, resource.kind, obj["metadata"].get("name") or "", problems)


def _definition_rule_problems(definition: Object) -> list[FieldProblem]:
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in definition["spec"]["versions"]]
    if not any(map(has_rules, schemas)):
        return []
    from kube_testserver.rules.validation_rules.checks import rule_problems  # noqa: PLC0415 - slow, and seldom needed

    return rule_problems(definition)


def _problems(resource: Resource, old: Object | None, new: Object) -> Iterable[FieldProblem]:
    """Return what is wrong with a new object, or with a change of `old`, by the rules of its kind."""
    if resource.collection == "pods":
        return _pod_problems(new)
    if resource.collection == "events" and old is None:
        return _event_problems(resource, new)
    if resource.collection == "secrets":
        return secret_problems(old, new)
    if resource.group == RBAC_GROUP:
        return rbac_problems(resource.kind, old, new)
    if resource.group == WEBHOOK_GROUP:
        return webhook_problems(new)
    if resource.collection in POD_GROUP_COLLECTIONS and not resource.custom:
        return pod_group_problems(resource, old, new)
    if resource.group == DEVICE_GROUP and not resource.custom:
        return device_problems(resource, old, new)
    return ()


def _name_problems(resource: Resource, obj: Object) -> Iterator[FieldProblem]:
    metadata = obj["metadata"]
    name = metadata.get("name") or ""
    if not name:
        yield FieldProblem.required("metadata.name", "name or generateName is required")
        return
    if resource.group == RBAC_GROUP:  # any segment of a path will do
        if name in (".", "..") or set("/%") & set(name):
            yield FieldProblem.invalid("metadata.name", name, "may not be '.' or '..' and may not contain '/' or '%'")
    elif resource.collection in _NAMED_BY_LABEL:
        yield from label_problems("metadata.name", name)
    else:
        yield from subdomain_problems("metadata.name", name)


def _label_problems(obj: Object) -> Iterator[FieldProblem]:
    for key, value in (obj["metadata"].get("labels") or {}).items():
        for rule in label_key_errors(key):
            yield FieldProblem.invalid("metadata.labels", key, rule)
        for rule in label_value_errors(value):
            yield FieldProblem.invalid("metadata.labels", value, rule)


def _pod_problems(pod: Object) -> Iterator[FieldProblem]:
    containers = (pod.get("spec") or {}).get("containers")
    if not containers:
        yield FieldProblem.required("spec.containers")
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        path = f"spec.containers[{index}]"
        name = container.get("name") or ""
        if not name:
            yield FieldProblem.required(f"{path}.name")
        elif name in seen:
            yield FieldProblem.duplicate(f"{path}.name", name)
        seen.add(name)
        if not container.get("image"):
            yield FieldProblem.required(f"{path}.image")
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        for resource_name, request in (resources.get("requests") or {}).items():
            limit = limits.get(resource_name)
            if limit is not None and parse_quantity(request) > parse_quantity(limit):
                yield FieldProblem.invalid(
                    f"{path}.resources.requests",
                    str(request),
                    f"must be less than or equal to {resource_name} limit of {limit}",
                )


def _event_problems(resource: Resource, event: Object) -> Iterator[FieldProblem]:
    """Check an event: the older kind ties it to its object's namespace, the newer asks for who, what and when."""
    namespace = event["metadata"].get("namespace") or ""
    of_object = (event.get("involvedObject") or {}).get("namespace") or ""
    newer = resource.group == "events.k8s.io"
    matches = of_object == namespace or (not of_object and namespace == "default")
    if event.get("eventTime"):
        if not (of_object or namespace in ("default", "kube-system")):
            yield FieldProblem.invalid("involvedObject.namespace", of_object, "does not match event.namespace")
        if not event.get("reportingComponent"):
            yield FieldProblem.required("reportingController" if newer else "reportingComponent")
        for name in ("reportingInstance", "action", "reason"):
            if not event.get(name):
                yield FieldProblem.required(name)
        if len((event.get("message") or "").encode()) > _NOTE_LIMIT_BYTES:
            yield FieldProblem.invalid("message", "", f"can have at most {_NOTE_LIMIT_BYTES} bytes")
    elif not matches:
        yield FieldProblem.invalid("involvedObject.namespace", of_object, "does not match event.namespace")
    if newer:
        if not event.get("eventTime"):
            yield FieldProblem.required("eventTime")
        if event.get("type") not in ("Normal", "Warning"):
            yield FieldProblem.invalid("type", "", f"has invalid value: {event.get('type') or ''}")


_POD_SPEC_MUTABLE: Final = frozenset({"activeDeadlineSeconds", "tolerations", "schedulingGates"})
_POD_SPEC_MUTABLE_WHILE_GATED: Final = frozenset({"nodeSelector", "affinity"})


def _pod_update_problems(old: Object, new: Object, *, resizing: bool) -> Iterator[FieldProblem]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    nominated, nominated_before = ((one.get("status") or {}).get("nominatedNodeName") for one in (new, old))
    if after.get("nodeName") and nominated and nominated != nominated_before:
        why = "may not be set on pods that are already bound to a node"
        yield FieldProblem.forbidden("status.nominatedNodeName", why)
    if before == after:
        return
    gates, gates_after = ([one.get("name") for one in spec.get("schedulingGates") or ()] for spec in (before, after))
    for gate in gates_after:
        if gate not in gates:
            why = f"only deletion is allowed, but found new scheduling gate '{gate}'"
            yield FieldProblem.forbidden("spec.schedulingGates", why)
    tolerations = after.get("tolerations") or []
    if any(toleration not in tolerations for toleration in before.get("tolerations") or ()):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield FieldProblem.forbidden("spec.tolerations", why)
    mutable = _POD_SPEC_MUTABLE | (_POD_SPEC_MUTABLE_WHILE_GATED if gates else frozenset())
    loose = frozenset({"image", "resources"} if resizing else {"image"})
    if _fixed_part(before, mutable, loose) != _fixed_part(after, mutable, loose):
        yield FieldProblem.forbidden("spec", _POD_IMMUTABLE)


def _fixed_part(spec: Object, mutable: frozenset[str], of_container: frozenset[str]) -> Object:
    fixed = {name: value for name, value in spec.items() if name not in mutable}
    for name in ("containers", "initContainers"):
        if name in fixed:
            fixed[name] = [
                {field: value for field, value in container.items() if field not in of_container}
                for container in fixed[name] or ()
            ]
    return fixed
