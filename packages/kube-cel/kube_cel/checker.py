"""The type checker: find the type of each part of a CEL expression.

Source: cel-go 0.26, `checker`, with the options that Kubernetes 1.36 sets.

Differs from kube-scheduler: expressions cannot create objects, as in ``google.protobuf.Duration{...}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_cel import types
from kube_cel.declarations import TYPES, Overload, overloads_of
from kube_cel.issues import Issues
from kube_cel.syntax import (
    Call,
    Comprehension,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    Select,
    StructExpr,
    dotted_name,
)
from kube_cel.types import Type, TypePool, format_type, is_dynamic
from kube_cel.validation import validate
from kube_cel.values import UInt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kube_cel.meter import Meter

__all__ = ["check"]

_LITERALS: Final[dict[type, Type]] = {
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
}
_NULLABLE: Final = frozenset({"opaque", "struct", "any", "duration", "timestamp"})
_OPTIONAL: Final = "optional_type"
_ANYTHING: Final = Type("param", "A", is_open=True)
_TYPE_NAMES: Final[dict[str, Type]] = {
    **{each.name: each for each in (types.BOOL, types.BYTES, types.DOUBLE, types.INT, types.STRING, types.UINT)},
    **{each.name: each for each in (types.NULL, types.DURATION, types.TIMESTAMP, types.TYPE)},
    **{TYPES[name].name: TYPES[name] for name in ("ip", "cidr")},
    "list": Type("list", "list", (_ANYTHING,), is_open=True),
    "map": Type("map", "map", (_ANYTHING, Type("param", "B", is_open=True)), is_open=True),
    _OPTIONAL: Type("opaque", _OPTIONAL),
}


def check(root: Node, source: str, variables: Mapping[str, Type], meter: Meter) -> Type:
    """Note the types of all nodes and return that of the whole; raise `CelCompileError` where they do not fit."""
    issues = Issues(source)
    checker = _Checker(issues, variables, meter)
    checker.check(root)
    issues.check()
    checker.settle()
    validate(root, issues, meter)
    issues.check()
    assert root.type is not None, "it was checked"
    return root.type


class _Checker:
    def __init__(self, issues: Issues, variables: Mapping[str, Type], meter: Meter) -> None:
        self._issues = issues
        self._meter = meter
        self._pool = TypePool()
        self._scopes: list[Mapping[str, Type]] = [variables]
        self._nodes: list[Node] = []
        #: What type variables stand for, and what was changed in it since a mark, so that it can be undone.
        self._bound: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []
        self._fresh = 0

    def settle(self) -> None:
        """Replace type variables that nothing is known about by the dynamic type."""
        for node in self._nodes:
            assert node.type is not None, "it was checked"
            node.type = self._substitute(node.type, to_dyn=True)

    def check(self, node: Node) -> Type:
        """Find the type of a node and of all in it."""
        if node.type is not None:
            return node.type
        self._meter.tick()
        match node:
            case Literal():
                found = _LITERALS[node.value.__class__]
            case Ident():
                found = self._ident(node, node.name)
            case Select():
                found = self._select(node)
            case Call():
                found = self._call(node)
            case ListExpr():
                found = self._list(node)
            case MapExpr():
                found = self._map(node)
            case Comprehension():
                found = self._comprehension(node)
            case _:
                assert isinstance(node, StructExpr), "there are no others"
                self._undeclared(node, node.name)
                found = types.ERROR
        node.type = found
        self._nodes.append(node)
        return found

    # Names

    def _look_up(self, name: str) -> Type | None:
        name = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _ident(self, node: Ident, name: str) -> Type:
        found = self._look_up(name)
        if found is not None:
            return found
        type_ = _TYPE_NAMES.get(name.removeprefix("."))
        if type_ is None:
            self._undeclared(node, name)
            return types.ERROR
        node.type_name = type_.name
        return self._pool.type_of(type_)

    def _undeclared(self, node: Node, name: str) -> None:
        self._issues.add(node.offset, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Select) -> Type:
        name = dotted_name(node)
        type_ = _TYPE_NAMES.get(name) if name else None
        if type_ is not None and not node.test_only and self._look_up(name.split(".")[0]) is None:
            node.operand.type = types.TYPE
            return self._pool.type_of(type_)
        found = self._field(node, node.operand, node.field, optional=False)
        return types.BOOL if node.test_only else self._substitute(found)

    def _field(self, node: Node, operand: Node, field: str, *, optional: bool) -> Type:
        type_ = self._substitute(self.check(operand))
        is_optional = type_.name == _OPTIONAL and bool(type_.params)
        if is_optional:
            type_ = type_.params[0]
        found = types.DYN
        match type_.kind:
            case "map":
                found = type_.params[1]
            case "struct":
                if field in type_.fields:
                    found = type_.fields[field]
                else:
                    known = bool(type_.fields)
                    message = f"undefined field '{field}'"
                    self._issues.add(
                        node.offset, message if known else f"unexpected failed resolution of '{type_.name}'"
                    )
                    found = types.ERROR
            case "param":
                self._is_assignable(types.DYN, type_)
            case _:
                if not is_dynamic(type_) and type_ is not types.ERROR:
                    message = f"type '{format_type(type_)}' does not support field selection"
                    self._issues.add(node.offset, message)
        return self._pool.optional_of(found) if is_optional or optional else found

    # Calls

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal), "the parser made it"
            self.check(field)
            node.overloads = ["select_optional_field"]
            return self._substitute(self._field(node, node.args[0], field.value, optional=True))
        for arg in node.args:
            self.check(arg)
        if node.target is not None:
            prefix = dotted_name(node.target)
            if prefix and overloads_of(f"{prefix}.{node.function}"):
                node.function, node.target = f"{prefix}.{node.function}", None
            else:
                self.check(node.target)
        function = node.function.removeprefix(".")
        overloads = overloads_of(function)
        if not overloads:
            self._undeclared(node, node.function)
            return types.ERROR
        node.function = function
        return self._resolve(node, overloads)

    def _resolve(self, node: Call, overloads: Sequence[Overload]) -> Type:
        """Note which overloads fit, and return the type of their result."""
        args = ([node.target] if node.target is not None else []) + node.args
        given = [self.check(arg) for arg in args]
        if node.function in ("_&&_", "_||_"):
            return self._logical(node, given)
        result: Type | None = None
        for overload in overloads:
            if overload.is_member != (node.target is not None) or len(overload.args) != len(given):
                continue
            self._meter.tick(len(given))
            wanted, made = self._instance(overload)
            if not self._all_assignable(given, wanted):
                continue
            node.overloads.append(overload.id)
            made = self._substitute(made)
            if result is None:
                result = made
            elif not is_dynamic(result) and made is not result:
                result = types.DYN
        if result is None:
            shown = [format_type(self._substitute(type_, to_dyn=True)) for type_ in given]
            target = f"{shown.pop(0)}." if node.target is not None else ""
            self._issues.add(
                node.offset,
                f"found no matching overload for '{node.function}' applied to '{target}({', '.join(shown)})'",
            )
            return types.ERROR
        return result

    def _logical(self, node: Call, given: Sequence[Type]) -> Type:
        result = types.BOOL
        for arg, type_ in zip(node.args, given, strict=True):
            if not self._is_assignable(type_, types.BOOL):
                self._mismatch(arg, types.BOOL, type_)
                result = types.ERROR
        node.overloads = ["logical_and" if node.function == "_&&_" else "logical_or"]
        return result

    def _instance(self, overload: Overload) -> tuple[Sequence[Type], Type]:
        """Return the signature of an overload with new type variables in place of its parameters."""
        if not overload.params:
            return overload.args, overload.result
        fresh = {name: self._variable() for name in overload.params}
        return [self._rename(arg, fresh) for arg in overload.args], self._rename(overload.result, fresh)

    def _rename(self, type_: Type, fresh: Mapping[str, Type]) -> Type:
        if not type_.is_open:
            return type_
        if type_.kind == "param":
            return fresh[type_.name]
        return self._pool.make(type_.kind, type_.name, tuple(self._rename(each, fresh) for each in type_.params))

    def _variable(self) -> Type:
        self._fresh += 1
        return self._pool.param(f"_var{self._fresh - 1}")

    def _mismatch(self, node: Node, expected: Type, found: Type) -> None:
        self._issues.add(node.offset, f"expected type '{format_type(expected)}' but found '{format_type(found)}'")

    # Lists, maps and loops

    def _list(self, node: ListExpr) -> Type:
        element: Type | None = None
        for index, each in enumerate(node.elements):
            found = self.check(each)
            if index in node.optionals:
                found = self._unwrapped(each, found)
            element = self._join(element, found)
        return self._pool.list_of(element if element is not None else self._variable())

    def _map(self, node: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._join(key, self.check(entry.key))
            found = self.check(entry.value)
            if entry.optional:
                found = self._unwrapped(entry.value, found)
            value = self._join(value, found)
        if key is None or value is None:
            return self._pool.map_of(self._variable(), self._variable())
        return self._pool.map_of(key, value)

    def _unwrapped(self, node: Node, type_: Type) -> Type:
        if type_.name == _OPTIONAL and type_.params:
            return type_.params[0]
        if not is_dynamic(type_):
            self._mismatch(node, self._pool.optional_of(type_), type_)
        return type_

    def _join(self, before: Type | None, found: Type) -> Type:
        if before is None:
            return found
        if self._is_assignable(before, found):
            return self._most_general(before, found)
        return types.DYN  # what mixes types is found out by `validation`

    def _comprehension(self, node: Comprehension) -> Type:
        self.check(node.iter_range)
        accu = self.check(node.accu_init)
        range_ = self._substitute(self.check(node.iter_range))
        first = second = types.DYN
        match range_.kind:
            case "list":
                first = second = range_.params[0]
                if node.iter_var2:
                    first = types.INT
            case "map":
                first, second = range_.params
            case "dyn" | "any" | "error" | "param" if range_ is not types.ANY:
                self._is_assignable(types.DYN, range_)
            case _:
                self._issues.add(
                    node.iter_range.offset,
                    f"expression of type '{format_type(range_)}' cannot be range of a comprehension "
                    "(must be list, map, or dynamic)",
                )
                first = second = types.ERROR
        self._scopes.append({node.accu_var: accu})
        inner = {node.iter_var: first}
        if node.iter_var2:
            inner[node.iter_var2] = second
        self._scopes.append(inner)
        condition = self.check(node.condition)
        if not self._is_assignable(types.BOOL, condition):
            self._mismatch(node.condition, types.BOOL, condition)
        step = self.check(node.step)
        if not self._is_assignable(accu, step):
            self._mismatch(node.step, accu, step)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return self._substitute(result)

    # Assignability

    def _is_assignable(self, left: Type, right: Type) -> bool:
        return self._all_assignable((left,), (right,))

    def _all_assignable(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        """Return whether types fit, and keep the resulting bindings of type variables."""
        mark = len(self._trail)
        if all(self._fits(one, other) for one, other in zip(left, right, strict=True)):
            return True
        while len(self._trail) > mark:
            variable, before = self._trail.pop()
            if before is None:
                del self._bound[variable]
            else:
                self._bound[variable] = before
        return False

    def _bind(self, variable: Type, type_: Type) -> None:
        self._trail.append((variable, self._bound.get(variable)))
        self._bound[variable] = type_

    def _fits(self, left: Type, right: Type) -> bool:
        self._meter.tick()
        if left is right and not left.is_open:
            return True
        if right.kind == "param":
            is_valid, is_bound = self._unify(left, right)
            if is_valid or is_bound:
                return is_valid
        if left.kind == "param":
            return self._unify(right, left)[0]
        if is_dynamic(left) or is_dynamic(right) or types.ERROR in (left, right):
            return True
        if left is types.NULL:
            return right is types.NULL or right.kind in _NULLABLE
        if right is types.NULL:
            return left.kind in _NULLABLE
        if left.kind == "type":
            return right.kind == "type"
        if left.kind != right.kind or left.name != right.name or len(left.params) != len(right.params):
            return False
        return all(self._fits(one, other) for one, other in zip(left.params, right.params, strict=True))

    def _unify(self, type_: Type, variable: Type) -> tuple[bool, bool]:
        """Let a variable stand for a type if it can; tell whether it does, and whether it stood for one before."""
        if type_ is variable:
            return True, True
        bound = self._bound.get(variable)
        if bound is not None:
            if type_ is bound:
                return True, True
            if self._fits(type_, bound):
                general = self._most_general(type_, bound)
                if not self._occurs(variable, general):
                    self._bind(variable, general)
                return True, True
            return False, True
        if self._occurs(variable, type_):
            return False, False
        self._bind(variable, type_)
        return True, False

    def _occurs(self, variable: Type, type_: Type) -> bool:
        """Return whether a variable is part of the type that another one stands for."""
        seen: set[Type] = set()
        stack = [type_]
        while stack:
            self._meter.tick()
            each = stack.pop()
            if each is variable:
                return True
            if not each.is_open or each in seen:
                continue
            seen.add(each)
            if each.kind == "param":
                if each in self._bound:
                    stack.append(self._bound[each])
            else:
                stack.extend(each.params)
        return False

    def _most_general(self, left: Type, right: Type) -> Type:
        return left if self._is_less_specific(left, right) else right

    def _is_less_specific(self, left: Type, right: Type) -> bool:
        self._meter.tick()
        if left is right or is_dynamic(left) or left.kind == "param":
            return True
        if is_dynamic(right) or right.kind == "param" or left.kind != right.kind:
            return False
        if left.kind == "type":
            return True
        if left.kind in ("list", "map", "opaque") and left.name == right.name and len(left.params) == len(right.params):
            pairs = zip(left.params, right.params, strict=True)
            return all(self._is_less_specific(one, other) for one, other in pairs)
        return False

    def _substitute(self, type_: Type, *, to_dyn: bool = False) -> Type:
        """Return a type with what its variables stand for; those that stand for nothing are dynamic if `to_dyn`."""
        return self._replace(type_, to_dyn, {}) if type_.is_open else type_

    def _replace(self, type_: Type, to_dyn: bool, known: dict[Type, Type]) -> Type:
        if not type_.is_open:
            return type_
        found = known.get(type_)
        if found is not None:
            return found
        self._meter.tick()
        if type_ in self._bound:
            found = self._replace(self._bound[type_], to_dyn, known)
        elif type_.kind == "param":
            found = types.DYN if to_dyn else type_
        else:
            params = tuple(self._replace(each, to_dyn, known) for each in type_.params)
            found = self._pool.make(type_.kind, type_.name, params)
        known[type_] = found
        return found
