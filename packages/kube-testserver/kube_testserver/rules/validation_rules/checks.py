"""Validate the CEL rules in a CustomResourceDefinition: their fields, and whether the expressions compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from kube_cel import CelCompileError, CelInternalError
from kube_cel.types import STRING
from kube_testserver.errors import FieldProblem
from kube_testserver.rules.validation_rules.evaluation import compile_rule, type_of_self, uses_old_self
from kube_testserver.rules.validation_rules.field_names import relative_path
from kube_testserver.rules.validation_rules.schema_types import as_resource
from kube_testserver.schema.custom_schemas import RULES, children_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_cel.types import Type
    from kube_testserver.store import Object

__all__ = ["rule_problems"]

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NO_TYPE: Final = (
    "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable "
    "to convert structural schema to CEL declarations"
)
_NOT_A_BOOL: Final = "must evaluate to bool or the unknown type"


def rule_problems(definition: Object) -> list[FieldProblem]:
    """Return what is wrong with the rules of a definition, of every schema that it has."""
    versions: list[Any] = definition["spec"]["versions"]
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in versions]
    if all(schema == schemas[0] for schema in schemas):  # the real server keeps them as one then
        return _Check().problems(as_resource(schemas[0]), "spec.validation.openAPIV3Schema", "")
    found = []
    for index, schema in enumerate(schemas):
        found += _Check().problems(as_resource(schema), f"spec.versions[{index}].schema.openAPIV3Schema", "")
    return found


@attrs.define
class _Check:
    """The check of one schema; `malformed` are the places of rules whose texts are wrong."""

    malformed: list[str] = attrs.Factory(list)

    def problems(self, schema: Object, path: str, uncorrelated: str) -> list[FieldProblem]:
        """Return the problems of a schema and of those in it.

        `uncorrelated` is the place of a list around it whose items have no identity; empty if there is none.
        """
        found: list[FieldProblem] = []
        for step, inner in children_of(schema):
            of_items = step == "items" and schema.get("x-kubernetes-list-type") != "map"
            found += self.problems(inner, f"{path}.{step}", uncorrelated or (path if of_items else ""))
        rules = schema.get(RULES) or ()
        texts = [one for index, rule in enumerate(rules) for one in _texts(schema, rule, f"{path}.{RULES}[{index}]")]
        if texts:
            self.malformed.append(path)
        # Where a text is wrong, here or deeper, the real server compiles nothing: its errors would mislead.
        elif rules and not any(place.startswith(path) for place in self.malformed):
            self_type = type_of_self(schema)
            if self_type is None:
                return [*found, FieldProblem(f"{path}.{RULES}", "InternalError", _NO_TYPE)]
            for index, rule in enumerate(rules):
                found += _expressions(rule, f"{path}.{RULES}[{index}]", self_type, uncorrelated)
        return found + texts


def _texts(schema: Object, rule: Object, path: str) -> Iterator[FieldProblem]:
    source, message, field_path = rule.get("rule") or "", rule.get("message") or "", rule.get("fieldPath") or ""
    if not source.strip():
        yield FieldProblem.required(f"{path}.rule", "rule is not specified")
    if message and not message.strip():
        yield FieldProblem.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield FieldProblem.invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in source.strip() and not message:
        yield FieldProblem.required(f"{path}.message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        yield FieldProblem.required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield FieldProblem.unsupported(f"{path}.reason", rule["reason"], _REASONS)
    if field_path and not field_path.strip():
        yield FieldProblem.invalid(f"{path}.fieldPath", field_path, "must be non-empty if specified")
    elif "\n" in field_path:
        yield FieldProblem.invalid(f"{path}.fieldPath", field_path, "must not contain line breaks")
    if relative_path(schema, field_path) is None:
        yield FieldProblem.invalid(f"{path}.fieldPath", field_path, "must be a valid path")


def _expressions(rule: Object, path: str, self_type: Type, uncorrelated: str) -> Iterator[FieldProblem]:
    uses_old = False
    try:
        program = compile_rule(rule["rule"], rule, self_type)
        uses_old = uses_old_self(program)
    except (CelCompileError, CelInternalError) as error:
        wrong_type = str(error).startswith(_NOT_A_BOOL)
        why = "cel expression must evaluate to a bool" if wrong_type else str(error)
        yield _not_valid(f"{path}.rule", rule, why)
    if uses_old and uncorrelated:
        why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
        yield FieldProblem.invalid(f"{path}.rule", rule["rule"], why)
    expression = rule.get("messageExpression")
    if expression:
        try:
            if compile_rule(expression, rule, self_type, plain=True).type is not STRING:
                yield _not_valid(f"{path}.messageExpression", rule, "messageExpression must evaluate to a string")
        except (CelCompileError, CelInternalError) as error:
            yield _not_valid(f"{path}.messageExpression", rule, f"messageExpression {error}")
    if rule.get("optionalOldSelf") is not None and not uses_old:
        why = "may not be set if oldSelf is not used in rule"
        yield FieldProblem.invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], why)


def _not_valid(path: str, rule: Object, why: str) -> FieldProblem:
    """Return a problem with a rule, which Go shows whole, in its own spelling of JSON."""
    fields = {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    shown = msgspec.json.encode(fields).decode()
    for character in "<>&":
        shown = shown.replace(character, f"\\u{ord(character):04x}")
    return FieldProblem(path, "FieldValueInvalid", f"Invalid value: {shown}: {why}")
