"""The syntax tree of an expression; the type checker adds types to its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from kube_cel.types import Type

__all__ = [
    "Call",
    "Comprehension",
    "Ident",
    "ListExpr",
    "Literal",
    "MapEntry",
    "MapExpr",
    "Node",
    "Select",
    "StructExpr",
    "dotted_name",
]


@attrs.define(eq=False)
class Node:
    """A part of an expression; `offset` is where in the source it is reported."""

    offset: int
    type: Type | None = attrs.field(default=None, init=False)
    #: Expressions within expressions, as the parser of cel-go counts them.
    height: int = attrs.field(default=0, init=False)


@attrs.define(eq=False)
class Literal(Node):
    """A number, text or other constant."""

    value: Any


@attrs.define(eq=False)
class Ident(Node):
    """A name."""

    name: str
    #: Set by the checker where the name stands for a type.
    type_name: str = attrs.field(default="", init=False)


@attrs.define(eq=False)
class Select(Node):
    """A field of a value, or the question whether there is one."""

    operand: Node
    field: str
    test_only: bool = False


@attrs.define(eq=False)
class Call(Node):
    """A call of a function or operator, with the value before the dot in `target`, if there is one."""

    function: str
    target: Node | None
    args: list[Node]
    #: Set by the checker: the overloads that can apply.
    overloads: list[str] = attrs.field(factory=list, init=False)


@attrs.define(eq=False)
class ListExpr(Node):
    """A list."""

    elements: list[Node]
    optionals: frozenset[int] = frozenset()


@attrs.define(eq=False)
class MapEntry:
    """A key with its value; `offset` is that of the colon."""

    offset: int
    key: Node
    value: Node
    optional: bool


@attrs.define(eq=False)
class MapExpr(Node):
    """A map."""

    entries: list[MapEntry]


@attrs.define(eq=False)
class StructExpr(Node):
    """An object of a named type with its fields, each with the offset of the colon."""

    name: str
    fields: list[tuple[int, str, Node, bool]]


@attrs.define(eq=False)
class Comprehension(Node):
    """A loop that a macro made; `kind` says which, and `parts` are the expressions of the macro that run in it."""

    kind: str
    iter_range: Node
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Node
    condition: Node
    step: Node
    result: Node
    parts: tuple[Node, ...]


def dotted_name(node: Node) -> str:
    """Return the dotted name that a node is, or nothing."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        names.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(names)]) if isinstance(node, Ident) else ""
