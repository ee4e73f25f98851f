"""Rules that kinds of devices share: drivers, pools, qualified names, tolerations, conditions, sizes, duplicates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kube_objects.names import label_key_errors, label_value_errors
from kube_testserver.errors import FieldProblem
from kube_testserver.rules.names import label_problems, subdomain_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kube_testserver.store import Object

__all__ = [
    "EFFECTS",
    "binding_condition_problems",
    "configuration_problems",
    "driver_problems",
    "duplicate_problems",
    "label_of_problems",
    "pool_problems",
    "qualified_name_problems",
    "required_name_problems",
    "selector_problems",
    "toleration_problems",
    "too_long",
    "too_many_problems",
]

EFFECTS: Final = ("NoExecute", "NoSchedule", "None")

_LONGEST_DRIVER: Final = 63
_LONGEST_POOL: Final = 253
_LONGEST_IDENTIFIER: Final = 32
_LONGEST_EXPRESSION: Final = 10 * 1024
_MOST_SELECTORS: Final = 32
_MOST_CONDITIONS: Final = 4
_IDENTIFIER_FORMAT: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_IDENTIFIER: Final = re.compile(_IDENTIFIER_FORMAT)
_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    f"or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER_FORMAT}')"
)


def too_long(path: str, most: int) -> FieldProblem:
    """Say that a text is too long."""
    return FieldProblem(path, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")


def too_many_problems(path: str, items: Sequence[Any], most: int) -> Iterator[FieldProblem]:
    """Yield that a list is too long, where it is."""
    if len(items) > most:
        noun = "item" if most == 1 else "items"
        yield FieldProblem(path, "FieldValueTooMany", f"Too many: {len(items)}: must have at most {most} {noun}")


def duplicate_problems(path: str, keys: Iterable[str]) -> Iterator[FieldProblem]:
    """Yield a problem for every repeated key in a list."""
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if key in seen:
            yield FieldProblem.duplicate(f"{path}[{index}]", key)
        seen.add(key)


def required_name_problems(path: str, name: str, *, subdomain: bool = False) -> Iterator[FieldProblem]:
    """Yield what is wrong with a name that has to be there."""
    if subdomain and not name:
        yield FieldProblem.required(path)
    else:
        yield from (subdomain_problems if subdomain else label_problems)(path, name)


def driver_problems(path: str, name: str) -> Iterator[FieldProblem]:
    """Yield what is wrong with the name of a driver."""
    if not name:
        yield FieldProblem.required(path)
        return
    if len(name) > _LONGEST_DRIVER:
        yield too_long(path, _LONGEST_DRIVER)
    yield from subdomain_problems(path, name.lower())


def pool_problems(path: str, name: str) -> Iterator[FieldProblem]:
    """Yield what is wrong with the name of a pool, which may have several parts."""
    if not name:
        yield FieldProblem.required(path)
        return
    if len(name) > _LONGEST_POOL:
        yield too_long(path, _LONGEST_POOL)
    for part in name.split("/"):
        yield from subdomain_problems(path, part)


def qualified_name_problems(path: str, name: str, *, fully: bool = False) -> Iterator[FieldProblem]:
    """Yield what is wrong with the name of an attribute or capacity; `fully`: it must have its domain."""
    domain, slash, identifier = name.rpartition("/")
    if slash and not domain:
        yield FieldProblem.invalid(path, "", "the domain must not be empty")
    elif slash:
        yield from driver_problems(path, domain)
    if slash and not identifier:
        yield FieldProblem.invalid(path, "", "the name must not be empty")
    else:
        if len(identifier) > _LONGEST_IDENTIFIER:
            yield too_long(path, _LONGEST_IDENTIFIER)
        if not _IDENTIFIER.fullmatch(identifier):
            yield FieldProblem.invalid(path, identifier, _IDENTIFIER_RULE)
    if fully and not slash:
        yield FieldProblem.invalid(
            path, name, "a fully qualified name must be a domain and a name separated by a slash"
        )


def label_of_problems(path: str, owner: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with the key and value of a taint or toleration; a toleration may have no key."""
    for rule in label_key_errors(owner.get("key") or ""):
        yield FieldProblem.invalid(f"{path}.key", owner.get("key") or "", rule)
    for rule in label_value_errors(owner.get("value") or ""):
        yield FieldProblem.invalid(f"{path}.value", owner.get("value"), rule)


def toleration_problems(path: str, tolerations: Sequence[Object]) -> Iterator[FieldProblem]:
    """Yield what is wrong with the tolerations of a request."""
    for index, toleration in enumerate(tolerations):
        where = f"{path}[{index}]"
        operator, value, effect = (toleration.get(name) or "" for name in ("operator", "value", "effect"))
        if toleration.get("key"):
            for rule in label_key_errors(toleration["key"]):
                yield FieldProblem.invalid(f"{where}.key", toleration["key"], rule)
        if operator == "Exists" and value:
            yield FieldProblem.invalid(f"{where}.value", value, "must be empty for operator `Exists`")
        elif operator in ("", "Equal"):
            for rule in label_value_errors(value):
                yield FieldProblem.invalid(f"{where}.value", value, rule)
        elif operator != "Exists":
            yield FieldProblem.unsupported(f"{where}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in EFFECTS:
            yield FieldProblem.unsupported(f"{where}.effect", effect, EFFECTS)


def selector_problems(path: str, selectors: Sequence[Object]) -> Iterator[FieldProblem]:
    """Yield what is wrong with selectors. Differs from the real server: expressions are not compiled."""
    if len(selectors) > _MOST_SELECTORS:
        yield from too_many_problems(path, selectors, _MOST_SELECTORS)
        return
    for index, selector in enumerate(selectors):
        where = f"{path}[{index}].cel"
        if selector.get("cel") is None:
            yield FieldProblem.required(where)
        elif len((selector["cel"].get("expression") or "").encode()) > _LONGEST_EXPRESSION:
            yield too_long(f"{where}.expression", _LONGEST_EXPRESSION)


def configuration_problems(path: str, configuration: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with the configuration of devices."""
    opaque = configuration.get("opaque")
    if opaque is None:
        yield FieldProblem.required(f"{path}.opaque")
        return
    yield from driver_problems(f"{path}.opaque.driver", opaque.get("driver") or "")
    parameters = opaque.get("parameters")
    if parameters is None:
        yield FieldProblem.required(f"{path}.opaque.parameters")
    elif not isinstance(parameters, dict):
        yield FieldProblem.invalid(f"{path}.opaque.parameters", "<value omitted>", "must be a valid JSON object")


def binding_condition_problems(path: str, owner: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with the conditions that a device waits for."""
    awaited, failing = owner.get("bindingConditions") or [], owner.get("bindingFailureConditions") or []
    for name, conditions in (("bindingConditions", awaited), ("bindingFailureConditions", failing)):
        yield from too_many_problems(f"{path}.{name}", conditions, _MOST_CONDITIONS)
        for index, condition in enumerate(conditions):
            for rule in label_key_errors(condition):
                yield FieldProblem.invalid(f"{path}.{name}[{index}]", condition, rule)
        yield from duplicate_problems(f"{path}.{name}", conditions)
    for index, condition in enumerate(failing):
        if condition in awaited:
            where = f"{path}.bindingFailureConditions[{index}]"
            why = "bindingFailureConditions must not overlap with bindingConditions"
            yield FieldProblem.invalid(where, condition, why)
    if failing and not awaited:
        why = "bindingConditions are required to use bindingFailureConditions"
        yield FieldProblem.invalid(f"{path}.bindingConditions", awaited, why)
    if awaited and not failing:
        why = "bindingFailureConditions are required to use bindingConditions"
        yield FieldProblem.invalid(f"{path}.bindingFailureConditions", failing, why)
