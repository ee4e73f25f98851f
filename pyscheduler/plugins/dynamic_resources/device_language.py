"""The CEL variable ``device``: its type and value, and the attributes and capacities that an expression reads.

Source: kube-scheduler 1.36, `k8s.io/dynamic-resource-allocation/cel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kube_cel import CelError
from kube_cel.declarations import TYPES
from kube_cel.library_kubernetes import semver_of
from kube_cel.quantities import parse_quantity
from kube_cel.syntax import Call, Comprehension, Ident, Literal, Node, Select
from kube_cel.types import ANY, BOOL, STRING, Type, TypePool
from kube_cel.validation import children_of
from kube_cel.values import DefaultMap, Map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Device, DeviceAttribute

__all__ = ["VARIABLES", "Reference", "device_value", "problem_of", "references_of"]

_DEVICE: Final = "device"
_POOL: Final = TypePool()
_DEVICE_TYPE: Final = Type(
    "struct",
    "kubernetes.DRADevice",
    fields={
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": _POOL.map_of(STRING, _POOL.map_of(STRING, ANY)),
        "capacity": _POOL.map_of(STRING, _POOL.map_of(STRING, TYPES["quantity"])),
    },
)

VARIABLES: Final[Mapping[str, Type]] = {_DEVICE: _DEVICE_TYPE}
"""The variables of expressions."""


class Reference(NamedTuple):
    """An attribute or a capacity that an expression asks for; `field` is ``attributes`` or ``capacity``."""

    field: str
    domain: str
    name: str


def device_value(driver: str, device: Device) -> Map:
    """Return a device as expressions see it; `problem_of` finds nothing wrong with it."""
    attributes, capacity = DefaultMap(), DefaultMap()
    for name, attribute in device.attributes.items():
        domain, identifier = _qualified(name, driver)
        attributes.setdefault(domain, Map())[identifier] = _attribute_value(name, attribute)
    for name, one in device.capacity.items():
        domain, identifier = _qualified(name, driver)
        capacity.setdefault(domain, Map())[identifier] = parse_quantity(str(one.value))
    return Map(
        driver=driver,
        allowMultipleAllocations=bool(device.allow_multiple_allocations),
        attributes=attributes,
        capacity=capacity,
    )


def problem_of(device: Device) -> str:
    """Return why the attributes of a device cannot be read, nothing where they can."""
    try:
        for name, attribute in device.attributes.items():
            _attribute_value(name, attribute)
    except CelError as error:
        return str(error)
    return ""


def _qualified(name: str, driver: str) -> tuple[str, str]:
    """Return domain and identifier of a name; without a domain it belongs to the driver."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute_value(name: str, attribute: DeviceAttribute) -> Any:
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is None:
        raise CelError(f"attribute {name}: unsupported attribute value")
    try:
        return semver_of(attribute.version_value)
    except CelError as error:
        raise CelError(f"attribute {name}: parse semantic version: {error}") from None


def references_of(root: Node) -> tuple[Reference, ...] | None:
    """Return what a checked expression asks of a device besides its driver; None where that cannot be told."""
    found: set[Reference] = set()
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Comprehension) and _DEVICE in (node.iter_var, node.iter_var2, node.accu_var):
            return None
        if isinstance(node, Ident) and node.name == _DEVICE:
            return None
        reference = _reference(node)
        if reference is not None:
            found.add(reference)
        elif not _is_plain(node):
            stack.extend(children_of(node))
    return tuple(sorted(found))


def _is_plain(node: Node) -> bool:
    """Return whether a node is a field of the device that all devices have, and no map."""
    return _is_device_field(node, ("driver", "allowMultipleAllocations"))


def _is_device_field(node: Node, fields: tuple[str, ...]) -> bool:
    is_field = isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == _DEVICE
    return is_field and isinstance(node, Select) and node.field in fields


def _reference(node: Node) -> Reference | None:
    """Return the attribute or capacity that a node is, named by domain and name in so many words."""
    inner = _keyed(node)
    if inner is None:
        return None
    domain = _keyed(inner[0])
    if domain is None or not _is_device_field(domain[0], ("attributes", "capacity")):
        return None
    assert isinstance(domain[0], Select), "it is a field"
    return Reference(domain[0].field, domain[1], inner[1])


def _keyed(node: Node) -> tuple[Node, str] | None:
    """Return what a node takes a part of, and the name of the part."""
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
        key = node.args[1]
        if isinstance(key, Literal) and key.value.__class__ is str:
            return node.args[0], str(key.value)
    return None
