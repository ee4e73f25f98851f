"""Expand macros: calls such as ``has(...)`` and ``list.all(...)``, which the parser replaces by other syntax trees.

Source: cel-go 0.26, `parser`, `cel` and `ext`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_cel.syntax import Call, Comprehension, Ident, ListExpr, Literal, MapExpr, Node, Select

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ACCUMULATOR", "MACROS", "MacroError"]

ACCUMULATOR: Final = "@result"
_OLD_ACCUMULATOR: Final = "__result__"
_UNUSED: Final = "#unused"


class MacroError(Exception):
    """Report that a macro is not used as it should be."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


def _accu(call: Call) -> Ident:
    return Ident(call.offset, ACCUMULATOR)


def _apply(call: Call, function: str, *args: Node) -> Call:
    return Call(call.offset, function, None, list(args))


def _constant(call: Call, value: object) -> Literal:
    return Literal(call.offset, value)


def _variable(node: Node, message: str) -> str:
    """Return the name of a variable that a macro declares."""
    if not isinstance(node, Ident):
        raise MacroError(node.offset, message)
    if node.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(node.offset, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(call: Call, *, two: bool, message: str) -> tuple[str, str]:
    """Return the names of the one or two variables of a loop, the second empty where there is one."""
    if not two:
        return _variable(call.args[0], message), ""
    first = _simple_name(call.args[0])
    second = _simple_name(call.args[1])
    if first == second:
        raise MacroError(call.args[1].offset, f"duplicate variable name: {first}")
    return _variable(call.args[0], message), _variable(call.args[1], message)


def _simple_name(node: Node) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.offset, "argument must be a simple name")
    return node.name


def _loop(
    call: Call,
    kind: str,
    names: tuple[str, str],
    init: Node,
    condition: Node,
    step: Node,
    result: Node,
    parts: tuple[Node, ...],
) -> Comprehension:
    assert call.target is not None, "macros for loops stand behind a value"
    return Comprehension(
        call.offset, kind, call.target, names[0], names[1], ACCUMULATOR, init, condition, step, result, parts
    )


def _all(call: Call, *, two: bool = False) -> Node:
    names = _variables(call, two=two, message="argument must be a simple name")
    predicate = call.args[-1]
    condition = _apply(call, "@not_strictly_false", _accu(call))
    step = _apply(call, "_&&_", _accu(call), predicate)
    return _loop(call, "all", names, _constant(call, True), condition, step, _accu(call), (predicate,))


def _exists(call: Call, *, two: bool = False) -> Node:
    names = _variables(call, two=two, message="argument must be a simple name")
    predicate = call.args[-1]
    condition = _apply(call, "@not_strictly_false", _apply(call, "!_", _accu(call)))
    step = _apply(call, "_||_", _accu(call), predicate)
    return _loop(call, "exists", names, _constant(call, False), condition, step, _accu(call), (predicate,))


def _exists_one(call: Call, *, two: bool = False) -> Node:
    names = _variables(call, two=two, message="argument must be a simple name")
    predicate = call.args[-1]
    more = _apply(call, "_+_", _accu(call), _constant(call, 1))
    step = _apply(call, "_?_:_", predicate, more, _accu(call))
    result = _apply(call, "_==_", _accu(call), _constant(call, 1))
    return _loop(call, "exists_one", names, _constant(call, 0), _constant(call, True), step, result, (predicate,))


def _build_list(call: Call, names: tuple[str, str], element: Node, only_if: Node | None) -> Node:
    one = ListExpr(call.offset, [element])
    step: Node = _apply(call, "_+_", _accu(call), one)
    parts: tuple[Node, ...] = (one,)
    if only_if is not None:
        step = _apply(call, "_?_:_", only_if, step, _accu(call))
        parts = (one, only_if)
    return _loop(call, "list", names, ListExpr(call.offset, []), _constant(call, True), step, _accu(call), parts)


def _map(call: Call) -> Node:
    names = _variables(call, two=False, message="argument is not an identifier")
    return _build_list(call, names, call.args[-1], call.args[1] if len(call.args) == 3 else None)


def _filter(call: Call) -> Node:
    names = _variables(call, two=False, message="argument is not an identifier")
    return _build_list(call, names, call.args[0], call.args[1])


def _transform_list(call: Call) -> Node:
    names = _variables(call, two=True, message="argument must be a simple name")
    return _build_list(call, names, call.args[-1], call.args[2] if len(call.args) == 4 else None)


def _build_map(call: Call, *, entries: bool) -> Node:
    names = _variables(call, two=True, message="argument must be a simple name")
    made = call.args[-1]
    insert = [_accu(call), made] if entries else [_accu(call), Ident(call.offset, names[0]), made]
    step: Node = Call(call.offset, "cel.@mapInsert", None, insert)
    parts: tuple[Node, ...] = (made,)
    if len(call.args) == 4:
        step = _apply(call, "_?_:_", call.args[2], step, _accu(call))
        parts = (made, call.args[2])
    kind = "entries" if entries else "map"
    return _loop(call, kind, names, MapExpr(call.offset, []), _constant(call, True), step, _accu(call), parts)


def _bind_value(call: Call, name: str, value: Node, body: Node) -> Comprehension:
    """Return an expression in which a name stands for a value, worked out when it is first needed."""
    return Comprehension(
        call.offset,
        "bind",
        ListExpr(call.offset, []),
        _UNUSED,
        "",
        name,
        value,
        _constant(call, False),
        Ident(call.offset, name),
        body,
        (),
    )


def _bind(call: Call) -> Node:
    if not isinstance(call.target, Ident) or call.target.name != "cel":
        return call
    if not isinstance(call.args[0], Ident):
        raise MacroError(call.args[0].offset, "cel.bind() variable names must be simple identifiers")
    return _bind_value(call, call.args[0].name, call.args[1], call.args[2])


def _opt_map(call: Call, *, flat: bool) -> Node:
    name = "optFlatMap" if flat else "optMap"
    assert call.target is not None, "the macro stands behind a value"
    if not isinstance(call.args[0], Ident):
        raise MacroError(call.args[0].offset, f"{name}() variable name must be a simple identifier")
    value = Call(call.offset, "value", call.target, [])
    body: Node = _bind_value(call, call.args[0].name, value, call.args[1])
    if not flat:
        body = _apply(call, "optional.of", body)
    return _apply(call, "_?_:_", Call(call.offset, "hasValue", call.target, []), body, _apply(call, "optional.none"))


def _sort_by(call: Call) -> Node:
    assert call.target is not None, "the macro stands behind a value"
    if isinstance(call.target, Literal | MapExpr):
        raise MacroError(
            call.target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    name = "@__sortBy_input__"
    keys = _map(Call(call.offset, "map", Ident(call.offset, name), call.args))
    made = Call(call.offset, "@sortByAssociatedKeys", Ident(call.offset, name), [keys])
    return _bind_value(call, name, call.target, made)


def _has(call: Call) -> Node:
    asked = call.args[0]
    if not isinstance(asked, Select):
        raise MacroError(asked.offset, "invalid argument to has() macro")
    return Select(call.offset, asked.operand, asked.field, test_only=True)


MACROS: Final[Mapping[tuple[str, int, bool], Callable[[Call], Node]]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("exists", 2, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("all", 3, True): lambda call: _all(call, two=True),
    ("exists", 3, True): lambda call: _exists(call, two=True),
    ("exists_one", 3, True): lambda call: _exists_one(call, two=True),
    ("existsOne", 3, True): lambda call: _exists_one(call, two=True),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): lambda call: _build_map(call, entries=False),
    ("transformMap", 4, True): lambda call: _build_map(call, entries=False),
    ("transformMapEntry", 3, True): lambda call: _build_map(call, entries=True),
    ("transformMapEntry", 4, True): lambda call: _build_map(call, entries=True),
    ("bind", 3, True): _bind,
    ("optMap", 2, True): lambda call: _opt_map(call, flat=False),
    ("optFlatMap", 2, True): lambda call: _opt_map(call, flat=True),
    ("sortBy", 2, True): _sort_by,
}
"""By name, number of arguments, and whether the call stands behind a value."""
