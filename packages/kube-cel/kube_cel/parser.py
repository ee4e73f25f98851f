"""The parser: turn the text of an expression into its syntax tree, and expand macros.

Differs from kube-scheduler: only the first syntax error of an expression is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeGuard

from kube_cel.issues import Issues
from kube_cel.lexer import RESERVED, Token, UnescapeError, tokenize, unescape
from kube_cel.macros import MACROS, MacroError
from kube_cel.syntax import Call, Ident, ListExpr, Literal, MapEntry, MapExpr, Node, Select, StructExpr, dotted_name
from kube_cel.values import MAX_INT, MAX_UINT, MIN_INT, UInt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kube_cel.meter import Meter

__all__ = ["parse"]

_DEEPEST: Final = 250
_WHOLE, _LOWEST, _OR, _AND, _RELATION, _SUM, _PRODUCT = range(-1, 6)
_LEVELS: Final = {
    "||": _OR,
    "&&": _AND,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), _RELATION),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_OPERATORS: Final = {"in": "@in", **{mark: f"_{mark}_" for mark in _LEVELS if mark != "in"}}
_OPERAND: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(source: str, meter: Meter) -> Node:
    """Return the tree of an expression; raise `CelCompileError` where the text is not one."""
    return _Parser(source, meter).parse()


class _SyntaxError(Exception):
    """Ends the parse at a token."""

    def __init__(self, token: Token, message: str) -> None:
        super().__init__(message)
        self.offset = token.offset


class _TooDeepError(Exception):
    """Ends the parse of an expression that nests too deeply."""


class _Parser:
    def __init__(self, source: str, meter: Meter) -> None:
        self._issues = Issues(source)
        self._meter = meter
        self._tokens = tokenize(source, meter)
        self._at = 0
        self._depth = 0

    def parse(self) -> Node:
        try:
            node = self._expression()
            if self._token.kind != "end":
                raise self._unexpected("<EOF>")
            if node.height > _DEEPEST:
                raise _TooDeepError("max recursion depth exceeded")
        except _SyntaxError as error:
            self._issues.add(error.offset, f"Syntax error: {error}")
        except _TooDeepError as error:
            self._issues.add_anywhere(str(error))
        except RecursionError:
            self._issues.add_anywhere(f"expression recursion limit exceeded: {_DEEPEST}")
        self._issues.check()
        return node

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _unexpected(self, wanted: str) -> _SyntaxError:
        token = self._token
        if token.kind == "bad":
            return _SyntaxError(token, f"token recognition error at: '{token.text}'")
        return _SyntaxError(token, f"mismatched input '{token.text}' expecting {wanted}")

    def _accept(self, mark: str) -> Token | None:
        token = self._tokens[self._at]
        if token.text != mark or token.kind != "mark":
            return None
        self._at += 1
        return token

    def _expect(self, mark: str) -> Token:
        token = self._accept(mark)
        if token is None:
            if self._token.kind == "end":
                raise _SyntaxError(self._token, f"missing '{mark}' at '<EOF>'")
            raise self._unexpected(f"'{mark}'")
        return token

    def _expression(self, level: int = _WHOLE) -> Node:
        """Read operands joined by operators of a higher level, or a whole expression."""
        if level == _WHOLE:
            self._depth += 1
            if self._depth > _DEEPEST:
                raise _TooDeepError(f"expression recursion limit exceeded: {_DEEPEST}")
        left = self._operand()
        chain = 0
        while (found := self._level()) > max(level, _LOWEST):
            mark = self._token.text
            if found in (_OR, _AND):
                terms, offsets = [left], []
                while self._level() == found:
                    offsets.append(self._token.offset)
                    self._at += 1
                    terms.append(self._expression(found))
                left = _balanced(_OPERATORS[mark], terms, offsets)
                continue
            chain += 1
            if chain >= _DEEPEST:
                raise _TooDeepError(f"expression recursion limit exceeded: {_DEEPEST}")
            offset = self._token.offset
            self._at += 1
            left = _call(offset, _OPERATORS[mark], None, [left, self._expression(found)], 1)
        if level == _WHOLE:
            if (question := self._accept("?")) is not None:
                if_true = self._expression(_LOWEST)
                self._expect(":")
                left = _call(question.offset, "_?_:_", None, [left, if_true, self._expression()], 1)
            self._depth -= 1
        return left

    def _level(self) -> int:
        """Return how strongly the operator at hand binds, the lowest level where there is none."""
        token = self._tokens[self._at]
        return _LEVELS.get(token.text, _LOWEST) if token.kind == "mark" else _LOWEST

    def _operand(self) -> Node:
        """Read a value with what comes before it, as ``!``, and behind it: fields, calls, indices."""
        self._meter.tick()
        prefix = self._token
        count = self._prefixes()
        if self._accept("("):
            node = self._expression()
            self._expect(")")
        else:
            node = self._primary()
            if self._may_be_called(node) and (opening := self._accept("(")) is not None:
                node = self._called(opening.offset, node.name, None, self._arguments(), 0)
        chain = 0
        while (token := self._token).kind == "mark" and token.text in (".", "[", "{"):
            if token.text == "{":
                name = dotted_name(node)
                if not name:
                    break
                self._at += 1
                node = self._struct(token.offset, name)
                continue
            chain += 1
            if chain >= _DEEPEST:
                raise _TooDeepError(f"expression recursion limit exceeded: {_DEEPEST}")
            self._at += 1
            if token.text == "[":
                node = self._index(node, token)
                continue
            node, method = self._member(node, token)
            if method and (opening := self._accept("(")) is not None:
                assert isinstance(node, Select), "it has a name"
                node = self._called(opening.offset, method, node.operand, self._arguments(), 1)
        if count % 2:
            node = _call(prefix.offset, f"{prefix.text}_", None, [node], 0)
        return node

    def _prefixes(self) -> int:
        """Read ``!`` or ``-``, however often it stands there; the sign of a number belongs to the number."""
        begin, mark = self._at, self._token
        if mark.kind == "mark" and mark.text in ("!", "-"):
            while self._token.kind == "mark" and self._token.text == mark.text:
                if mark.text == "-" and self._at == begin and self._tokens[self._at + 1].kind in ("int", "float"):
                    break
                self._at += 1
        return self._at - begin

    def _may_be_called(self, node: Node) -> TypeGuard[Ident]:
        return isinstance(node, Ident) and self._tokens[self._at - 1].kind == "name"

    def _index(self, node: Node, token: Token) -> Node:
        function = "_[?_]" if self._accept("?") else "_[_]"
        index = self._expression()
        self._expect("]")
        return _call(token.offset, function, None, [node, index], 1)

    def _member(self, node: Node, dot: Token) -> tuple[Node, str]:
        """Read what stands behind a dot; return it with its name, where that may be the name of a function."""
        optional = self._accept("?") is not None
        name = self._token
        if name.kind == "quoted":
            self._issues.add(name.offset, "unsupported syntax: '`'")
        elif name.kind != "name":
            raise self._unexpected("IDENTIFIER" if optional else "{'?', IDENTIFIER, ESC_IDENTIFIER}")
        self._at += 1
        if optional:
            field = Literal(name.offset, name.text)
            return _call(dot.offset, "_?._", None, [node, field], 1), ""
        selected = Select(dot.offset, node, name.text)
        selected.height = node.height + 1
        return selected, name.text if name.kind == "name" else ""

    def _primary(self) -> Node:
        token = self._token
        self._at += 1
        match token.kind:
            case "string" | "bytes":
                return self._text(token)
            case "int" | "uint" | "float":
                return self._number(token, "")
            case "name":
                return self._name(token, "")
            case "mark":
                return self._marked(token)
        self._at -= 1
        raise self._unexpected(_OPERAND)

    def _marked(self, token: Token) -> Node:
        match token.text:
            case "[":
                return self._list(token.offset)
            case "{":
                return self._map(token.offset)
            case "-" if self._token.kind in ("int", "float"):
                self._at += 1
                return self._number(self._tokens[self._at - 1], "-", token.offset)
            case "." if self._token.kind == "name":
                self._at += 1
                return self._name(self._tokens[self._at - 1], ".")
            case "true" | "false":
                return Literal(token.offset, token.text == "true")
            case "null":
                return Literal(token.offset, None)
        self._at -= 1
        raise self._unexpected(_OPERAND)

    def _name(self, token: Token, dot: str) -> Node:
        if token.text in RESERVED:
            self._issues.add(token.offset, f"reserved identifier: {token.text}")
        return Ident(token.offset, dot + token.text)

    def _called(self, offset: int, function: str, target: Node | None, args: list[Node], step: int) -> Node:
        """Return a call, or what the macro of this name makes of it."""
        call = _call(offset, function, target, args, step)
        macro = MACROS.get((function, len(args), target is not None))
        if macro is None:
            return call
        try:
            expanded = macro(call)
        except MacroError as error:
            self._issues.add(error.offset, str(error))
            return call
        if expanded is not call:
            expanded.height = call.height
        return expanded

    def _arguments(self) -> list[Node]:
        args: list[Node] = []
        if self._accept(")"):
            return args
        while True:
            args.append(self._expression())
            if self._accept(")"):
                return args
            self._expect_comma(")")

    def _expect_comma(self, closing: str) -> None:
        if self._accept(",") is None:
            if self._token.kind == "end":
                raise _SyntaxError(self._token, f"missing '{closing}' at '<EOF>'")
            raise self._unexpected(f"{{'{closing}', ','}}")

    def _entries(self, closing: str) -> Iterator[int]:
        """Yield the place of each entry until `closing`; a comma follows each entry, and may follow the last one."""
        place = 0
        while not self._accept(closing):
            if place:
                self._expect_comma(closing)
                if self._accept(closing):
                    return
            elif self._accept(","):
                self._expect(closing)
                return
            yield place
            place += 1

    def _list(self, offset: int) -> Node:
        elements: list[Node] = []
        optionals: set[int] = set()
        for place in self._entries("]"):
            if self._accept("?"):
                optionals.add(place)
            elements.append(self._expression())
        node = ListExpr(offset, elements, frozenset(optionals))
        node.height = _highest(elements)
        return node

    def _map(self, offset: int) -> Node:
        entries: list[MapEntry] = []
        for _ in self._entries("}"):
            optional = self._accept("?") is not None
            key = self._expression()
            colon = self._expect(":")
            entries.append(MapEntry(colon.offset, key, self._expression(), optional))
        node = MapExpr(offset, entries)
        node.height = max((max(each.key.height, each.value.height) for each in entries), default=0)
        return node

    def _struct(self, offset: int, name: str) -> Node:
        fields: list[tuple[int, str, Node, bool]] = []
        for _ in self._entries("}"):
            optional = self._accept("?") is not None
            field = self._token
            if field.kind != "name":
                raise self._unexpected("{'}', '?', ',', IDENTIFIER, ESC_IDENTIFIER}")
            self._at += 1
            colon = self._expect(":")
            fields.append((colon.offset, field.text, self._expression(), optional))
        node = StructExpr(offset, name, fields)
        node.height = _highest([value for _, _, value, _ in fields])
        return node

    def _text(self, token: Token) -> Node:
        is_bytes = token.kind == "bytes"
        try:
            value = unescape(token.text[1:] if is_bytes else token.text, is_bytes=is_bytes)
        except UnescapeError as error:
            self._issues.add(token.offset, str(error))
            value = ""
        return Literal(token.offset, value)

    def _number(self, token: Token, sign: str, offset: int | None = None) -> Node:
        where = token.offset if offset is None else offset
        if token.kind == "float":
            value = float(sign + token.text)
            if value in (float("inf"), float("-inf")):
                self._issues.add(where, "invalid double literal")
            return Literal(where, value)
        digits = token.text.rstrip("uU") if token.kind == "uint" else token.text
        if len(digits) > 64:
            number = MAX_UINT + 1 if digits.lstrip("0x") else 0
        else:
            number = int(digits, 16 if digits.startswith("0x") else 10)
        if token.kind == "uint":
            if number > MAX_UINT:
                self._issues.add(where, "invalid uint literal")
            return Literal(where, UInt(number))
        number = -number if sign else number
        if not MIN_INT <= number <= MAX_INT:
            self._issues.add(where, "invalid int literal")
        return Literal(where, number)


def _highest(nodes: Sequence[Node]) -> int:
    return max((node.height for node in nodes), default=0)


def _call(offset: int, function: str, target: Node | None, args: list[Node], step: int) -> Call:
    call = Call(offset, function, target, args)
    call.height = max(target.height if target is not None else 0, _highest(args)) + step
    return call


def _balanced(function: str, terms: list[Node], offsets: list[int]) -> Node:
    """Return terms joined by ``&&`` or ``||`` as a tree that is as flat as possible."""

    def join(low: int, high: int) -> Node:
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else join(low, middle - 1)
        right = terms[middle + 1] if middle == high else join(middle + 1, high)
        return _call(offsets[middle], function, None, [left, right], 0)

    return join(0, len(offsets) - 1)
