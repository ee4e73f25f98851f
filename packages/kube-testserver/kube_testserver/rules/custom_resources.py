"""Validate custom resources by the schema of their CRD, set defaults, and remove unknown fields.

Differs from kube-apiserver: some keywords of OpenAPI are ignored, such as `allOf`.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

from kube_testserver import errors
from kube_testserver.errors import FieldProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object

__all__ = ["apply_schema", "check_schema"]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
#: Kinds of problems of an object to which no rules are applied.
_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


def apply_schema(schema: Object, obj: Object) -> None:
    """Fill in defaults and drop unknown fields."""
    properties = schema.get("properties") or {}
    for name in [name for name in obj if name != "metadata"]:
        if name in properties:
            obj[name] = _shaped(obj[name], properties[name])
        elif not schema.get(_PRESERVE):
            del obj[name]
    _add_defaults(obj, properties)


def check_schema(
    resource: Resource, obj: Object, before: Object | None = None, *, warnings: list[str] | None = None
) -> None:
    """Fill in defaults, drop unknown fields, and refuse (422) what the schema of `resource` does not allow.

    Rules may compare with the object as it was `before`; those that an unchanged part does not keep go into `warnings`.
    """
    schema = resource.schema or {}
    properties = schema.get("properties") or {}
    problems: list[FieldProblem] = []
    apply_schema(schema, obj)
    for name, value in obj.items():
        if name in properties and name != "metadata":
            problems += _problems(value, properties[name], name)
    problems += [FieldProblem.required(name) for name in schema.get("required") or () if name not in obj]
    if resource.has_rules:
        problems += _rule_problems(resource, obj, before, problems, [] if warnings is None else warnings)
    if problems:
        raise errors.invalid(resource.storage_group, resource.kind, obj["metadata"].get("name") or "", problems)


def _rule_problems(
    resource: Resource, obj: Object, before: Object | None, problems: list[FieldProblem], warnings: list[str]
) -> list[FieldProblem]:
    """Return what the rules of a schema say against an object that has these `problems` already."""
    if any(problem.reason in _BLOCKING for problem in problems):
        return [FieldProblem.invalid("<nil>", None, _NOT_CHECKED)]
    from kube_testserver.rules.validation_rules.evaluation import RuleSet  # noqa: PLC0415 - slow, and seldom needed

    rules = resource.derived.get("rules")
    if rules is None:
        rules = resource.derived["rules"] = RuleSet.of_resource(resource.schema or {})
    old = None if before is None else resource.view(before)
    found = list(rules.problems(resource.view(obj), old, "", warnings))
    # A text without its format is found by the rules of each object around it.
    formats = dict.fromkeys(problem for problem in found if problem.reason == "FieldValueTypeInvalid")
    return [*formats, FieldProblem.invalid("<nil>", None, _NOT_CHECKED)] if formats else found


def _shaped(value: Any, schema: Object) -> Any:
    """Return a value with unknown fields dropped and defaults filled in, all the way down."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        shaped = {}
        for name, inner in value.items():
            if name in properties:
                shaped[name] = _shaped(inner, properties[name])
            elif isinstance(extra, dict):
                shaped[name] = _shaped(inner, extra)
            elif extra is True or schema.get(_PRESERVE) or schema.get("x-kubernetes-embedded-resource"):
                shaped[name] = inner
        _add_defaults(shaped, properties)
        return shaped
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_shaped(inner, schema["items"]) for inner in value]
    return value


def _add_defaults(obj: Object, properties: Object) -> None:
    for name, schema in properties.items():
        if name not in obj and "default" in schema:
            obj[name] = _shaped(schema["default"], schema)


def _problems(value: Any, schema: Object, path: str) -> Iterator[FieldProblem]:
    if value is None and schema.get("nullable"):
        return
    expected = schema.get("type")
    if schema.get(_INT_OR_STRING):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield _wrong_type(value, "integer,string", path)
        return
    if expected and not _has_type(value, expected):
        yield _wrong_type(value, expected, path)
        return
    enum = schema.get("enum")
    if enum and value not in enum:
        yield FieldProblem.unsupported(path, value, [str(item) for item in enum])
    if isinstance(value, dict):
        yield from _object_problems(value, schema, path)
    elif isinstance(value, list):
        yield from _count_problems(len(value), schema, path, "Items")
        for index, item in enumerate(value):
            yield from _problems(item, schema.get("items") or {}, f"{path}[{index}]")
    elif isinstance(value, str):
        yield from _text_problems(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_problems(value, schema, path)


def _object_problems(value: Object, schema: Object, path: str) -> Iterator[FieldProblem]:
    yield from _count_problems(len(value), schema, path, "Properties")
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if name not in value:
            yield FieldProblem.required(f"{path}.{name}")
    for name, inner in value.items():
        known = properties.get(name) or (extra if isinstance(extra, dict) else {})
        yield from _problems(inner, known, f"{path}.{name}")


def _has_type(value: Any, expected: str) -> bool:
    if isinstance(value, bool):
        return expected == "boolean"
    if expected == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "number": int | float}
    return isinstance(value, kinds.get(expected, object))


def _wrong_type(value: Any, expected: str, path: str) -> FieldProblem:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    found = names.get(type(value), "null")
    return FieldProblem(
        path,
        "FieldValueTypeInvalid",
        f'Invalid value: "{found}": {path} in body must be of type {expected}: "{found}"',
    )


def _number_problems(value: float, schema: Object, path: str) -> Iterator[FieldProblem]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and (value < least or (schema.get("exclusiveMinimum") and value == least)):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield FieldProblem.invalid(path, value, f"{path} in body should be {words} {least}")
    if most is not None and (value > most or (schema.get("exclusiveMaximum") and value == most)):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield FieldProblem.invalid(path, value, f"{path} in body should be {words} {most}")


def _text_problems(value: str, schema: Object, path: str) -> Iterator[FieldProblem]:
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if least is not None and len(value) < least:
        yield FieldProblem.invalid(path, value, f"{path} in body should be at least {least} chars long")
    if most is not None and len(value) > most:
        yield FieldProblem(path, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")
    if pattern and (compiled := _compile(pattern)) is not None and compiled.search(value) is None:
        yield FieldProblem.invalid(path, value, f"{path} in body should match '{pattern}'")


@functools.lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern of Go's dialect compiled, or None when Python does not know it: then everything matches."""
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _count_problems(count: int, schema: Object, path: str, what: str) -> Iterator[FieldProblem]:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    noun = what.lower()
    if least is not None and count < least:
        yield FieldProblem.invalid(path, count, f"{path} in body should have at least {least} {noun}")
    if most is not None and count > most:
        yield FieldProblem(path, "FieldValueTooMany", f"Too many: {count}: must have at most {most} {noun}")
