"""Compile the CEL rules of a schema, and apply them to an object and, in an update, to its earlier state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from kube_cel import CelCancelledError, CelCompileError, CelError, CelInternalError, Meter, compile_expression
from kube_cel.syntax import Ident
from kube_cel.validation import children_of as parts_of
from kube_cel.values import NO_VALUE, Optional
from kube_testserver.errors import FieldProblem
from kube_testserver.rules.validation_rules.field_names import relative_path
from kube_testserver.rules.validation_rules.schema_types import (
    POOL,
    BadFormatError,
    aligned,
    as_resource,
    cel_type,
    cel_value,
    identity,
)
from kube_testserver.schema.custom_schemas import RULES, has_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_cel import Program
    from kube_cel.types import Type
    from kube_testserver.store import Object

__all__ = ["OLD_SELF", "RuleSet", "compile_rule", "type_of_self", "uses_old_self"]

OLD_SELF: Final = "oldSelf"
_LONGEST_MESSAGE: Final = 5120
_CONTAINERS: Final = frozenset({"object", "array"})
#: How a problem at the root of an object is named.
_ROOT: Final = "<nil>"
_COMPILE_COST: Final = 10_000_000


def type_of_self(schema: Object) -> Type | None:
    """Return the type of `self` in the rules of a schema."""
    return cel_type(schema, "selfType")


def compile_rule(source: str, rule: Object, self_type: Type, *, plain: bool = False) -> Program:
    """Return an expression of a rule, ready to run; raise `CelCompileError`."""
    old_type = POOL.optional_of(self_type) if rule.get("optionalOldSelf") else self_type
    variables = {"self": self_type, OLD_SELF: old_type}
    return compile_expression(source.strip(), variables, Meter(limit=_COMPILE_COST), plain=plain)


def uses_old_self(program: Program) -> bool:
    """Return True if an expression compares with the object as it was."""
    left = [program.root]
    while left:
        node = left.pop()
        if isinstance(node, Ident) and node.name == OLD_SELF:
            return True
        left.extend(parts_of(node))
    return False


@attrs.frozen
class _Rule:
    """One rule: what it asks, and what is said when it fails. `path` leads from its value to the field to name."""

    spec: dict[str, Any]
    program: Program
    message: Program | None
    is_transition: bool
    path: str

    @property
    def name(self) -> str:
        """Name in messages about rules that cannot be evaluated."""
        return str(self.spec.get("message") or self.spec["rule"]).strip()


@attrs.frozen
class RuleSet:
    """The rules of a schema and of the schemas in it that have any."""

    schema: dict[str, Any]
    rules: tuple[_Rule, ...]
    items: RuleSet | None
    values: RuleSet | None
    properties: dict[str, RuleSet]

    @classmethod
    def of_resource(cls, schema: Object) -> RuleSet:
        """Return the rules of a custom resource."""
        return cls._of(as_resource(schema))

    @classmethod
    def _of(cls, schema: Object) -> RuleSet:
        items, values = schema.get("items"), schema.get("additionalProperties")
        return cls(
            schema,
            tuple(_compiled(schema)),
            cls._of(items) if isinstance(items, dict) and has_rules(items) else None,
            cls._of(values) if isinstance(values, dict) and has_rules(values) else None,
            {name: cls._of(one) for name, one in (schema.get("properties") or {}).items() if has_rules(one)},
        )

    def problems(self, new: Any, old: Any, path: str, warnings: list[str]) -> Iterator[FieldProblem]:
        """Yield what rules say against the value at a path; `old` is as it was, None if there was none.

        A rule that an unchanged value does not keep adds to `warnings`.
        """
        if new is None:
            return
        if self.rules:
            yield from self._own_problems(new, old, path, warnings)
        if isinstance(new, dict):
            before = old if isinstance(old, dict) else {}
            for name, value in new.items():
                if name in self.properties:
                    where = f"{path}.{name}" if path else name
                    yield from self.properties[name].problems(value, before.get(name), where, warnings)
                elif self.values is not None:
                    yield from self.values.problems(value, before.get(name), f"{path}[{name}]", warnings)
        elif isinstance(new, list) and self.items is not None:
            keys = self.schema.get("x-kubernetes-list-map-keys") or ()
            known = {identity(one, keys): one for one in old} if keys and isinstance(old, list) else {}
            for index, value in enumerate(new):
                same = known.get(identity(value, keys)) if keys else None
                yield from self.items.problems(value, same, f"{path}[{index}]", warnings)

    def _own_problems(self, new: Any, old: Any, path: str, warnings: list[str]) -> Iterator[FieldProblem]:
        unchanged, old = new == old, aligned(old, new, self.schema)
        try:
            value = cel_value(new, self.schema, path)
        except BadFormatError as error:
            shown = msgspec.json.encode(error.text).decode()
            text = f"Invalid value: {shown}: {error.path} in body must be of type {error.expected}: {shown}"
            yield FieldProblem(error.path, "FieldValueTypeInvalid", text)
            return
        try:
            before = cel_value(old, self.schema, path)
        except (BadFormatError, TypeError, ValueError):  # it was stored under another schema
            before = old = None
        for rule in self.rules:
            optional = bool(rule.spec.get("optionalOldSelf"))
            if rule.is_transition and old is None and not optional:
                continue
            values = [value, NO_VALUE if old is None else Optional(before)] if optional else [value, before]
            problem, is_last = self._problem(rule, values, new, path)
            if problem is None:
                continue
            if unchanged and not rule.is_transition:
                warnings.append(f"{problem.field}: {problem.message}")
            else:
                yield problem
            if is_last:
                return

    def _problem(self, rule: _Rule, values: list[Any], new: Any, path: str) -> tuple[FieldProblem | None, bool]:
        """Return what a rule says against a value, and whether no further rule is to be asked."""
        kind = self.schema.get("type") or ""
        field = path or _ROOT
        try:
            if rule.program.evaluate(values, Meter()) is True:
                return None, False
        except CelCancelledError as error:
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            return FieldProblem.invalid(field, kind, f"'{error}': {why}: {rule.name}"), True
        except (CelError, CelInternalError) as error:
            if str(error).startswith("no such overload"):
                why = "call arguments did not match a supported operator, function or macro signature for rule"
                return FieldProblem.invalid(field, kind, f"'{error}': {why}: {rule.name}"), False
            return FieldProblem.invalid(field, kind, f"{error} evaluating rule: {rule.name}"), False
        if rule.path:
            field = f"{path}.{rule.path}" if path else rule.path
        shown = "" if kind in _CONTAINERS else msgspec.json.encode(new).decode()
        return _failed(rule, field, shown, _message(rule, values)), False


def _compiled(schema: Object) -> Iterator[_Rule]:
    self_type = type_of_self(schema) if schema.get(RULES) else None
    if self_type is None:
        return
    for spec in schema[RULES]:
        try:
            program = compile_rule(spec["rule"], spec, self_type)
            given = spec.get("messageExpression")
            message = compile_rule(given, spec, self_type, plain=True) if given else None
        except (CelCompileError, CelInternalError):
            continue  # only a definition that was planted has such a rule; others are refused
        yield _Rule(spec, program, message, uses_old_self(program), relative_path(schema, spec.get("fieldPath")) or "")


def _message(rule: _Rule, values: list[Any]) -> str:
    """Return what a failed rule says: its expression's text where that is one, else its message."""
    if rule.message is not None:
        try:
            text = rule.message.evaluate(values, Meter())
        except (CelError, CelInternalError):
            text = None
        if isinstance(text, str) and text.strip() and "\n" not in text and len(text) <= _LONGEST_MESSAGE:
            return text.strip()
    message = (rule.spec.get("message") or "").strip()
    return message or f"failed rule: {rule.spec['rule'].strip()}"


def _failed(rule: _Rule, field: str, shown: str, message: str) -> FieldProblem:
    reason = rule.spec.get("reason") or "FieldValueInvalid"
    if reason == "FieldValueRequired":
        return FieldProblem.required(field, message)
    if reason == "FieldValueForbidden":
        return FieldProblem.forbidden(field, message)
    if reason == "FieldValueDuplicate":
        return FieldProblem(field, reason, f"Duplicate value: {shown}" if shown else "Duplicate value")
    value = f"Invalid value: {shown}" if shown else "Invalid value"
    return FieldProblem(field, reason, f"{value}: {message}")
