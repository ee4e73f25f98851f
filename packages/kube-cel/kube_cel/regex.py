"""Regular expressions, without the exponential search of Python's `re`.

Python's `re` tries alternatives one after the other, so a pattern of an untrusted user can take forever. This module
follows all alternatives at once, one character at a time, and counts its steps. The matches are the same as in Go.

Google's RE2 is not used, because its search cannot be interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_cel import regex_syntax as syntax
from kube_cel.errors import CelCancelledError
from kube_cel.regex_syntax import RegexError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_cel.meter import Meter
    from kube_cel.regex_syntax import Group, Predicate

__all__ = ["Regex", "RegexError"]

#: Larger patterns count as too costly.
_MOST_INSTRUCTIONS: Final = 10_000

_CHAR, _CLASS, _SPLIT, _JUMP, _ASSERT, _MATCH = range(6)
_WORD: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


class Regex:
    """A pattern, ready to search; raise `RegexError` for a text that is none."""

    __slots__ = ("_classes", "_operations", "_targets", "_texts")

    def __init__(self, pattern: str, meter: Meter) -> None:
        #: By instruction: what it does, the instruction that follows, and what it takes.
        self._operations: list[int] = []
        self._targets: list[tuple[int, ...]] = []
        self._texts: list[str] = []
        self._classes: list[Predicate | None] = []
        tree = syntax.parse(pattern, meter)
        try:
            self._compile(tree, meter)
        except RecursionError:
            raise RegexError("expression nests too deeply", pattern) from None
        self._emit(_MATCH)

    def _emit(self, operation: int, *targets: int, text: str = "", belongs: Predicate | None = None) -> int:
        number = len(self._operations)
        if number >= _MOST_INSTRUCTIONS:
            raise CelCancelledError
        self._operations.append(operation)
        self._targets.append(targets or (number + 1,))
        self._texts.append(text)
        self._classes.append(belongs)
        return number

    def _compile(self, group: Group, meter: Meter) -> None:
        meter.tick()
        match group:
            case syntax.Char():
                self._emit(_CHAR if group.belongs is None else _CLASS, text=group.text, belongs=group.belongs)
            case syntax.Assertion():
                self._emit(_ASSERT, text=group.kind)
            case syntax.Concat():
                for part in group.parts:
                    self._compile(part, meter)
            case syntax.Alternation():
                self._alternate(group, meter)
            case syntax.Repeat():
                self._repeat(group, meter)

    def _alternate(self, group: syntax.Alternation, meter: Meter) -> None:
        ends: list[int] = []
        for part in group.parts[:-1]:
            split = self._emit(_SPLIT)
            self._compile(part, meter)
            ends.append(self._emit(_JUMP))
            self._targets[split] = (split + 1, len(self._operations))
        self._compile(group.parts[-1], meter)
        for end in ends:
            self._targets[end] = (len(self._operations),)

    def _repeat(self, group: syntax.Repeat, meter: Meter) -> None:
        for _ in range(group.least - (group.most is None and group.least > 0)):
            self._compile(group.part, meter)
        if group.most is None:
            if group.least == 0:
                # One or more, or none at all: so parts that match nothing end the loop as they do in Go.
                split = self._emit(_SPLIT)
                self._plus(group, meter)
                self._branch(split, split + 1, len(self._operations), group.lazy)
            else:
                self._plus(group, meter)
            return
        splits: list[int] = []
        for _ in range(group.most - group.least):
            splits.append(self._emit(_SPLIT))
            self._compile(group.part, meter)
        for split in splits:
            self._branch(split, split + 1, len(self._operations), group.lazy)

    def _plus(self, group: syntax.Repeat, meter: Meter) -> None:
        start = len(self._operations)
        self._compile(group.part, meter)
        split = self._emit(_SPLIT)
        self._branch(split, start, split + 1, group.lazy)

    def _branch(self, split: int, more: int, on: int, lazy: bool) -> None:
        self._targets[split] = (on, more) if lazy else (more, on)

    def search(self, text: str, meter: Meter, start: int = 0, *, shortest: bool = False) -> tuple[int, int] | None:
        """Return where the first match from `start` on begins and ends; with `shortest`, of any match at all."""
        threads: list[tuple[int, int]] = []
        found: tuple[int, int] | None = None
        operations, texts, classes, targets = self._operations, self._texts, self._classes, self._targets
        for at in range(start, len(text) + 1):
            reached: list[tuple[int, int]] = []
            seen: set[int] = set()
            for number, begun in threads:
                self._follow(number, begun, text, at, reached, seen, meter)
            if found is None:
                self._follow(0, at, text, at, reached, seen, meter)
            if not reached and found is not None:
                break
            character = text[at] if at < len(text) else ""
            threads = []
            meter.tick(1 + len(reached))
            for number, begun in reached:
                operation = operations[number]
                if operation == _MATCH:
                    found = (begun, at)
                    break  # what follows is preferred less
                if not character:
                    continue
                if operation == _CHAR:
                    if character == texts[number]:
                        threads.append((targets[number][0], begun))
                elif (belongs := classes[number]) is not None and belongs(character):
                    threads.append((targets[number][0], begun))
            if found is not None and (shortest or not threads):
                break
        return found

    def _follow(
        self,
        number: int,
        begun: int,
        text: str,
        at: int,
        reached: list[tuple[int, int]],
        seen: set[int],
        meter: Meter,
    ) -> None:
        """Add the instructions that can be reached without taking a character, the preferred ones first."""
        stack = [number]
        while stack:
            each = stack.pop()
            if each in seen:
                continue
            seen.add(each)
            meter.fuel -= 1
            if meter.fuel < 0:
                meter.tick(0)
            operation = self._operations[each]
            if operation in (_SPLIT, _JUMP):
                stack.extend(reversed(self._targets[each]))
            elif operation == _ASSERT:
                if _holds(self._texts[each], text, at):
                    stack.append(each + 1)
            else:
                reached.append((each, begun))

    def find_all(self, text: str, limit: int, meter: Meter) -> Iterator[tuple[int, int]]:
        """Yield the places of matches that do not overlap, at most `limit`, all where that is negative."""
        at, before, left = 0, -1, limit
        while left != 0 and at <= len(text):
            match = self.search(text, meter, at)
            if match is None:
                return
            begin, end = match
            is_new = True
            if end == at:
                is_new = begin != before
                at += 1
            else:
                at = end
            before = end
            if is_new:
                left -= 1
                yield match


def _holds(kind: str, text: str, at: int) -> bool:
    """Return whether an assertion holds at a place."""
    match kind:
        case "A":
            return at == 0
        case "z":
            return at == len(text)
        case "^":
            return at == 0 or text[at - 1] == "\n"
        case "$":
            return at == len(text) or text[at] == "\n"
    is_word = at < len(text) and text[at] in _WORD
    was_word = at > 0 and text[at - 1] in _WORD
    return (is_word != was_word) == (kind == "b")
