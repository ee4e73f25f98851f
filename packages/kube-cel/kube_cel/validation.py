"""Find errors that CEL's type check misses: invalid literals, wrong format strings, lists and maps of mixed types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_cel import types
from kube_cel.errors import CelError
from kube_cel.formatting import CLAUSES, NOT_PRINTABLE, FormatError, read_format
from kube_cel.operators import CONVERSIONS
from kube_cel.regex import Regex, RegexError
from kube_cel.syntax import Call, Comprehension, ListExpr, Literal, MapExpr, Node, Select, StructExpr
from kube_cel.types import Type, format_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_cel.issues import Issues
    from kube_cel.meter import Meter

__all__ = ["children_of", "validate"]

_PRINTABLE: Final = frozenset(
    {"list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"}
)


def children_of(node: Node) -> Iterator[Node]:
    """Yield the parts of a node, each once."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case ListExpr():
            yield from node.elements
        case MapExpr():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case Comprehension():
            yield from (node.iter_range, node.accu_init, node.condition, node.step, node.result)
        case StructExpr():
            yield from (value for _, _, value, _ in node.fields)


def validate(root: Node, issues: Issues, meter: Meter) -> None:
    """Add what is wrong with a checked expression to `issues`."""
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        node, formatted = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        meter.tick()
        inner = formatted
        match node:
            case Call():
                _literal_argument(node, issues, meter)
                if node.function == "format":
                    inner = True
                    _format_call(node, issues)
            case ListExpr() if not formatted:
                _list(node, issues)
            case MapExpr() if not formatted:
                _map(node, issues)
        stack.extend((child, inner) for child in children_of(node))


def _literal_argument(node: Call, issues: Issues, meter: Meter) -> None:
    if not node.args or not isinstance(node.args[0], Literal):
        return
    literal = node.args[0]
    try:
        if node.function in ("duration", "timestamp"):
            CONVERSIONS[node.function](literal.value, meter)
        elif node.function == "matches":
            Regex(literal.value, meter)
    except (CelError, RegexError):
        issues.add(literal.offset, f"invalid {node.function} argument")


def _equivalent(left: Type, right: Type) -> bool:
    """Return whether two types are the same but for the names of type parameters."""
    if left is right:
        return True
    if left.kind != right.kind or len(left.params) != len(right.params):
        return False
    if left.kind != "param" and left.name != right.name:
        return False
    return all(_equivalent(one, other) for one, other in zip(left.params, right.params, strict=True))


def _type(node: Node, *, optional: bool) -> Type:
    assert node.type is not None, "it was checked"
    return node.type.params[0] if optional and node.type.params else node.type


def _list(node: ListExpr, issues: Issues) -> None:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        found = _type(element, optional=index in node.optionals)
        if first is None:
            first = found
        elif not _equivalent(first, found):
            _mismatch(element, first, found, issues)
            return


def _map(node: MapExpr, issues: Issues) -> None:
    key: Type | None = None
    value: Type | None = None
    for entry in node.entries:
        found_key = _type(entry.key, optional=False)
        found_value = _type(entry.value, optional=entry.optional)
        if key is None or value is None:
            key, value = found_key, found_value
            continue
        if not _equivalent(key, found_key):
            _mismatch(entry.key, key, found_key, issues)
        if not _equivalent(value, found_value):
            _mismatch(entry.value, value, found_value, issues)


def _mismatch(node: Node, expected: Type, found: Type, issues: Issues) -> None:
    issues.add(node.offset, f"expected type '{format_type(expected)}' but found '{format_type(found)}'")


def _format_call(node: Call, issues: Issues) -> None:
    """Check a format that is written out against the list of its arguments, if that is written out, too."""
    target = node.target
    if not isinstance(target, Literal) or target.value.__class__ is not str or len(node.args) != 1:
        return
    given = node.args[0]
    if not isinstance(given, ListExpr):
        return
    count = 0
    try:
        for piece in read_format(target.value):
            if isinstance(piece, str):
                continue
            if count >= len(given.elements):
                # Where the list is too short, the checker of cel-go runs past its end, too.
                raise FormatError(f"index {count} out of range")
            if piece.problem:
                raise FormatError(piece.problem)
            problem, where = _argument(piece.letter, given.elements[count])
            if problem:
                issues.add(where.offset, f"error during formatting: {problem}")
                return
            count += 1
    except FormatError as error:
        issues.add(node.offset, str(error))
        return
    if len(given.elements) > count:
        issues.add(
            node.offset,
            f"too many arguments supplied to string.format (expected {count}, got {len(given.elements)})",
        )


def _argument(letter: str, node: Node) -> tuple[str, Node]:
    """Return what is wrong with an argument, and which part of it that is."""
    assert node.type is not None, "it was checked"
    if letter == "s":
        return _printable(node)
    wanted, message = CLAUSES[letter]
    if node.type is types.DYN or node.type.kind in wanted:
        return "", node
    return f"{message}, was given {node.type.name}", node


def _printable(node: Node) -> tuple[str, Node]:
    assert node.type is not None, "it was checked"
    if node.type is not types.DYN and node.type.kind not in _PRINTABLE:
        return f"{NOT_PRINTABLE}, was given {node.type.name}", node
    if isinstance(node, ListExpr | MapExpr):
        for child in children_of(node):
            problem, where = _printable(child)
            if problem:
                return problem, where
    return "", node
