"""What the server refuses of resource slices.

Source: Kubernetes 1.36, `pkg/apis/resource/validation`, with its default feature gates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kube_objects.quantity import parse_quantity, quantity_value
from kube_testserver.errors import FieldProblem
from kube_testserver.resources.scale import value_at
from kube_testserver.rules.devices.common import (
    EFFECTS,
    binding_condition_problems,
    driver_problems,
    duplicate_problems,
    label_of_problems,
    pool_problems,
    qualified_name_problems,
    required_name_problems,
    too_long,
    too_many_problems,
)
from kube_testserver.rules.names import label_problems, subdomain_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.store import Object

__all__ = ["slice_problems"]

_MOST_DEVICES: Final = 128
_MOST_DEVICES_WITH_MORE: Final = 64
_MOST_PROPERTIES: Final = 32
_MOST_TAINTS: Final = 16
_MOST_COUNTER_SETS: Final = 8
_MOST_CONSUMED_SETS: Final = 2
_MOST_COUNTERS: Final = 32
_MOST_VALID_VALUES: Final = 10
_LONGEST_VALUE: Final = 64
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUES: Final = ("bool", "int", "string", "version")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_NUMBER: Final = r"(0|[1-9]\d*)"
_EARLY: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_EARLY}(\.{_EARLY})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
)


def slice_problems(old: Object | None, spec: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with the spec of a new slice, or with a change of `old`."""
    pool = spec.get("pool") or {}
    yield from driver_problems("spec.driver", spec.get("driver") or "")
    yield from pool_problems("spec.pool.name", pool.get("name") or "")
    if (pool.get("resourceSliceCount") or 0) <= 0:
        count = pool.get("resourceSliceCount") or 0
        yield FieldProblem.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if (pool.get("generation") or 0) < 0:
        why = "must be greater than or equal to zero"
        yield FieldProblem.invalid("spec.pool.generation", pool["generation"], why)
    if old is not None:
        yield from _changed_problems(old, spec)
    yield from _place_problems("spec", spec, _PLACES)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        yield FieldProblem.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    devices, counters = devices or [], counters or []
    most = _MOST_DEVICES_WITH_MORE if any(map(_has_more, devices)) else _MOST_DEVICES
    if len(devices) > most:
        yield from too_many_problems("spec.devices", devices, most)
    else:
        for index, device in enumerate(devices):
            yield from _device_problems(f"spec.devices[{index}]", device, alone=bool(spec.get(_PLACES[-1])))
        yield from duplicate_problems("spec.devices", (one.get("name") or "" for one in devices))
    yield from too_many_problems("spec.sharedCounters", counters, _MOST_COUNTER_SETS)
    for index, one in enumerate(counters):
        yield from _counter_problems(f"spec.sharedCounters[{index}]", one, "name")
    yield from duplicate_problems("spec.sharedCounters", (one.get("name") or "" for one in counters))


def _changed_problems(old: Object, spec: Object) -> Iterator[FieldProblem]:
    for path in (("pool", "name"), ("driver",), ("nodeName",)):
        value = value_at(spec, path)
        if value_at(old, path) != value:
            yield FieldProblem.invalid(".".join(("spec", *path)), value, "field is immutable")


def _has_more(device: Object) -> bool:
    lists = any(name in one for one in (device.get("attributes") or {}).values() for name in _LISTS)
    return bool(device.get("taints") or device.get("consumesCounters")) or lists


def _place_problems(path: str, owner: Object, places: tuple[str, ...]) -> Iterator[FieldProblem]:
    """Yield what is wrong with where a slice, or a device with a place of its own, can be reached."""
    of_device = len(places) < len(_PLACES)
    chosen: list[str] = []
    for name in places:
        value = owner.get(name)
        if value is None:
            continue
        if name == "nodeName" and not value:
            why = "must not be empty" if of_device else "must be either unset or set to a non-empty string"
            yield FieldProblem.invalid(f"{path}.{name}", value, why)
            continue
        if value is False:
            yield FieldProblem.invalid(f"{path}.{name}", value, "must be either unset or set to true")
            continue
        chosen.append(f"`{name}`")
        if name == "nodeName":
            yield from subdomain_problems(f"{path}.{name}", value)
        elif name == "nodeSelector":
            terms = value.get("nodeSelectorTerms") or []
            if not terms:
                yield FieldProblem.required(
                    f"{path}.{name}.nodeSelectorTerms", "must have at least one node selector term"
                )
            if len(terms) != 1 and not of_device:
                why = "must have exactly one node selector term"
                yield FieldProblem.invalid(f"{path}.{name}.nodeSelectorTerms", terms, why)
    if of_device:
        why = (
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set "
            "to true in the ResourceSlice spec"
        )
        also = why
    else:
        why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        also = f"{why}, but multiple fields are set"
    if not chosen:
        yield FieldProblem.required(path, why)
    elif len(chosen) > 1:
        yield FieldProblem.invalid(path, "{" + ", ".join(chosen) + "}", also)


def _device_problems(path: str, device: Object, *, alone: bool) -> Iterator[FieldProblem]:
    """Yield what is wrong with a device; `alone`: the slice leaves it to its devices where they are."""
    yield from label_problems(f"{path}.name", device.get("name") or "")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > _MOST_PROPERTIES:
        why = f"the total number of attributes and capacities must not exceed {_MOST_PROPERTIES}"
        yield FieldProblem.invalid(path, count, why)
    for name, attribute in attributes.items():
        yield from qualified_name_problems(f"{path}.attributes", name)
        yield from _attribute_problems(f"{path}.attributes[{name}]", attribute)
    for name, one in capacity.items():
        yield from qualified_name_problems(f"{path}.capacity", name)
        where, policy = f"{path}.capacity[{name}].requestPolicy", one.get("requestPolicy")
        if policy is not None and not device.get("allowMultipleAllocations"):
            yield FieldProblem.forbidden(where, "allowMultipleAllocations must be true")
        elif policy is not None:
            yield from _policy_problems(where, policy, one.get("value") or "0")
    yield from _taint_problems(f"{path}.taints", device.get("taints") or [])
    consumed, where = device.get("consumesCounters") or [], f"{path}.consumesCounters"
    yield from too_many_problems(where, consumed, _MOST_CONSUMED_SETS)
    for index, one in enumerate(consumed):
        yield from _counter_problems(f"{where}[{index}]", one, "counterSet")
    yield from duplicate_problems(where, (one.get("counterSet") or "" for one in consumed))
    if alone:
        yield from _place_problems(path, device, _PLACES[:-1])
    elif any(device.get(name) is not None for name in _PLACES[:-1]):
        why = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
            "the ResourceSlice spec"
        )
        yield FieldProblem.invalid(path, None, why)
    yield from binding_condition_problems(path, device)


def _attribute_problems(path: str, attribute: Object) -> Iterator[FieldProblem]:
    given = [name for name in (*_VALUES, *_LISTS) if attribute.get(name) is not None]
    if len(given) != 1:
        yield FieldProblem.invalid(path, attribute if given else "", "exactly one value must be specified")
    for name in given:
        if name in _LISTS and not attribute[name]:
            yield FieldProblem.invalid(f"{path}.{name}", attribute[name], "must not be empty if specified")
        of_list = attribute[name] if name in _LISTS else [attribute[name]]
        for index, value in enumerate(of_list):
            where = f"{path}.{name}[{index}]" if name in _LISTS else f"{path}.{name}"
            if name.startswith("version") and not _VERSION.fullmatch(value):
                yield FieldProblem.invalid(where, value, "must be a string compatible with semver.org spec 2.0.0")
            if isinstance(value, str) and len(value.encode()) > _LONGEST_VALUE:
                yield too_long(where, _LONGEST_VALUE)


def _taint_problems(path: str, taints: list[Object]) -> Iterator[FieldProblem]:
    if len(taints) > _MOST_TAINTS:
        yield from too_many_problems(path, taints, _MOST_TAINTS)
        return
    for index, taint in enumerate(taints):
        where, effect = f"{path}[{index}]", taint.get("effect") or ""
        yield from label_of_problems(where, taint)
        if not effect:
            yield FieldProblem.required(f"{where}.effect")
        elif effect not in EFFECTS:
            yield FieldProblem.unsupported(f"{where}.effect", effect, EFFECTS)


def _counter_problems(path: str, owner: Object, named: str) -> Iterator[FieldProblem]:
    """Yield what is wrong with a set of counters, or with what a device takes of one."""
    name = owner.get(named) or ""
    if not name:
        yield FieldProblem.required(f"{path}.{named}")
    else:
        yield from required_name_problems(f"{path}.{named}", name)
    counters = owner.get("counters") or {}
    if not counters:
        yield FieldProblem.required(f"{path}.counters")
    else:
        yield from too_many_problems(f"{path}.counters", list(counters), _MOST_COUNTERS)
    for key in counters:
        yield from label_problems(f"{path}.counters", key)


# --- how much can be asked for ----------------------------------------------------------------------


def _policy_problems(path: str, policy: Object, value: Any) -> Iterator[FieldProblem]:
    values, bounds, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and bounds is not None:
        why = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield FieldProblem.forbidden(path, why)
        return
    kind = "validValues" if values else "validRange" if bounds is not None else ""
    if not kind:
        return
    if default is None:
        yield FieldProblem.required(f"{path}.default", f"required when {kind} is defined")
    elif values:
        yield from _values_problems(f"{path}.validValues", values, default, value)
    else:
        yield from _range_problems(f"{path}.validRange", bounds or {}, default, value)


def _values_problems(path: str, values: list[Any], default: Any, value: Any) -> Iterator[FieldProblem]:
    amounts = [parse_quantity(one) for one in values]
    for index in range(1, len(values)):
        if amounts[index - 1] > amounts[index]:
            why = "values must be sorted in ascending order"
            yield FieldProblem.invalid(f"{path}[{index}]", str(values[index]), why)
    yield from too_many_problems(path, values, _MOST_VALID_VALUES)
    for index, amount in enumerate(amounts):
        if amount > parse_quantity(value):
            why = f"option is larger than capacity value: {value}"
            yield FieldProblem.invalid(f"{path}[{index}]", str(values[index]), why)
    yield from duplicate_problems(path, (str(quantity_value(one)) for one in values))
    if parse_quantity(default) not in amounts:
        yield FieldProblem.invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _range_problems(path: str, bounds: Object, default: Any, value: Any) -> Iterator[FieldProblem]:
    least, most, step = bounds.get("min"), bounds.get("max"), bounds.get("step")
    if least is None:
        yield FieldProblem.required(f"{path}.min", "required when validRange is defined")
        return
    amount = parse_quantity
    checks = [
        ("min", least, amount(least) > amount(value), f"min is larger than capacity value: {value}"),
        ("min", default, amount(default) < amount(least), f"default is less than min: {least}"),
    ]
    if most is not None:
        checks += [
            ("max", least, amount(least) > amount(most), f"min is larger than max: {most}"),
            ("max", most, amount(most) > amount(value), f"max is larger than capacity value: {value}"),
            ("max", default, amount(default) > amount(most), f"default is more than max: {most}"),
        ]
    for name, shown, wrong, why in checks:
        if wrong:
            yield FieldProblem.invalid(f"{path}.{name}", str(shown), why)
    if step is None:
        return
    if amount(least) + amount(step) > amount(value):
        why = f"one step {step} is larger than capacity value: {value}"
        yield FieldProblem.invalid(f"{path}.step", str(step), why)
    for one in (default, *(() if most is None else (most,))):
        if quantity_value(step) <= 0 or (quantity_value(one) - quantity_value(least)) % quantity_value(step):
            why = f"value is not a multiple of a given step ({step}) from ({least})"
            yield FieldProblem.invalid(f"{path}.step", str(one), why)
