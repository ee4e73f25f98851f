"""Turn a checked syntax tree into Python functions that evaluate it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from kube_cel.attributes import (
    Attribute,
    Conditional,
    Qualifier,
    presence,
    qualifier_problem,
)
from kube_cel.calls import charge_failure, dispatch
from kube_cel.costs import FAILED, equality_cost, inequality_cost
from kube_cel.errors import CelCompileError, CelError
from kube_cel.loops import UNSET, Rounds, loop
from kube_cel.meter import Meter, tenth
from kube_cel.operators import CONVERSIONS, NO_OVERLOAD, equal
from kube_cel.regex import Regex, RegexError
from kube_cel.syntax import Call, Comprehension, Ident, ListExpr, Literal, MapExpr, Node, Select
from kube_cel.types import TYPE
from kube_cel.validation import children_of
from kube_cel.values import MAX_INT, NO_VALUE, Map, Optional, TypeValue, UInt, key_of, show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Planner", "Run"]

Run: TypeAlias = "Callable[[Meter], Any]"

#: A node of a loop counts as so many steps a round.
_STEPS: Final = 4

_MOST_COUNTED: Final = 1000
_NOT_CONSTANT: Final = object()
_REGEX_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})
_PRIMITIVE: Final[frozenset[Any]] = frozenset({bool, int, UInt, float, str})


@attrs.frozen(eq=False)
class Planned:
    """A node that can be evaluated; `attribute` is set where fields and indices can be added to it."""

    run: Run
    constant: Any = _NOT_CONSTANT
    attribute: Attribute | Conditional | None = None

    @property
    def is_constant(self) -> bool:
        """Return whether the value is known."""
        return self.constant is not _NOT_CONSTANT


class Planner:
    """Plans one expression; `variables` are the names that its evaluations give values to, in their order."""

    def __init__(self, variables: Sequence[str], meter: Meter) -> None:
        self._meter = meter
        self._scope: dict[str, tuple[int, Run | None]] = {name: (slot, None) for slot, name in enumerate(variables)}
        self._known: dict[int, Planned] = {}
        #: Nodes that were planned; holds them, so that none takes another's identity.
        self._nodes: list[Node] = []
        self.slots = len(variables)

    def plan(self, node: Node) -> Planned:
        """Return a node ready for evaluation; raise `CelCompileError`."""
        known = self._known.get(id(node))
        if known is None:
            self._meter.tick()
            known = self._plan(node)
            self._known[id(node)] = known
            self._nodes.append(node)
        return known

    def _plan(self, node: Node) -> Planned:
        match node:
            case Literal():
                return _constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListExpr():
                return self._list(node)
            case MapExpr():
                return self._map(node)
        assert isinstance(node, Comprehension), "the checker refuses all others"
        return self._comprehension(node)

    # Names, fields, indices

    def _ident(self, node: Ident) -> Planned:
        if node.type_name:
            return _constant(TypeValue(node.type_name))
        slot, init = self._scope[node.name.removeprefix(".")]
        if init is None:
            return _attribute(Attribute(lambda meter: meter.slots[slot], slot=slot))

        def resolve(meter: Meter) -> Any:
            value = meter.slots[slot]
            if value is UNSET:
                try:
                    value = init(meter)
                except CelError as error:
                    value = error
                meter.slots[slot] = value
            if value.__class__ is CelError:
                raise value
            return value

        return _attribute(Attribute(resolve))

    def _select(self, node: Select) -> Planned:
        if node.operand.type is TYPE and node.type is not None:
            return _constant(TypeValue(node.type.params[0].name))  # a name with dots that stands for a type
        attribute = self._as_attribute(self.plan(node.operand))
        if node.test_only:
            test = attribute.extend(Qualifier(node.field, test_only=True))
            return Planned(presence(test), attribute=test)
        return _attribute(attribute.extend(Qualifier(node.field)))

    def _as_attribute(self, planned: Planned) -> Attribute | Conditional:
        return planned.attribute if planned.attribute is not None else Attribute(planned.run)

    def _index(self, node: Call, *, optional: bool) -> Planned:
        attribute = self._as_attribute(self.plan(node.args[0]))
        index = self.plan(node.args[1])
        if index.is_constant:
            problem = qualifier_problem(index.constant)
            if problem:
                raise CelCompileError(f"program instantiation failed: {problem}")
            qualifier = Qualifier(index.constant, optional=optional)
        else:
            resolve = index.attribute.resolve if index.attribute is not None else index.run
            qualifier = Qualifier(None, resolve, optional=optional)
        return _attribute(attribute.extend(qualifier))

    # Lists and maps

    def _list(self, node: ListExpr) -> Planned:
        elements = [self.plan(element) for element in node.elements]
        runs = [element.run for element in elements]
        optionals = node.optionals
        size = 64 + 8 * len(runs)

        def run(meter: Meter) -> list[Any]:
            made: list[Any] = []
            try:
                for place, element in enumerate(runs):
                    value = element(meter)
                    if place in optionals:
                        if value.__class__ is not Optional:
                            raise CelError(
                                f"cannot initialize optional list element from non-optional value {show(value)}"
                            )
                        if value is NO_VALUE:
                            continue
                        value = value.value
                    made.append(value)
            finally:
                meter.cost += 10
            meter.use(size)
            return made

        if all(element.is_constant for element in elements):
            return _folded(run, self._meter)
        return Planned(run)

    def _map(self, node: MapExpr) -> Planned:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]
        runs = [(key.run, value.run, optional) for key, value, optional in entries]
        size = 64 + 128 * len(runs)

        def run(meter: Meter) -> Map:
            made = Map()
            try:
                for key_run, value_run, optional in runs:
                    key = key_run(meter)
                    value = value_run(meter)
                    if optional:
                        if value.__class__ is not Optional:
                            raise CelError(
                                f"cannot initialize optional entry '{show(key)}' from non-optional value {show(value)}"
                            )
                        if value is NO_VALUE:
                            made.pop(key_of(key), None)
                            continue
                        value = value.value
                    made[key_of(key)] = value
            finally:
                meter.cost += 30
            meter.use(size)
            return made

        if all(key.is_constant and value.is_constant for key, value, _ in entries):
            return _folded(run, self._meter)
        return Planned(run)

    # Loops

    def _comprehension(self, node: Comprehension) -> Planned:
        before = dict(self._scope)
        source = self.plan(node.iter_range)
        if node.kind == "bind":
            slot = self._new_slot()
            self._scope[node.accu_var] = (slot, self.plan(node.accu_init).run)
            body = self.plan(node.result).run
            self._scope = before
            return Planned(_bind(slot, body))
        first = self._new_slot()
        self._scope[node.iter_var] = (first, None)
        second = -1
        if node.iter_var2:
            second = self._new_slot()
            self._scope[node.iter_var2] = (second, None)
        runs = [self.plan(part).run for part in node.parts]
        self._scope = before
        steps = _STEPS * (1 + sum(map(_count, node.parts)))
        return Planned(loop(node.kind, Rounds(source.run, first, second, steps), runs))

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    # Calls

    def _call(self, node: Call) -> Planned:
        match node.function:
            case "_&&_" | "_||_":
                left, right = (self.plan(arg).run for arg in node.args)
                return Planned(_logical(left, right, decides=node.function == "_||_"))
            case "_?_:_":
                condition, *branches = (self.plan(arg) for arg in node.args)
                one, other = (self._as_attribute(branch) for branch in branches)
                return _attribute(Conditional(condition.run, one, other))
            case "_[_]":
                return self._index(node, optional=False)
            case "_[?_]" | "_?._":
                return self._index(node, optional=True)
        args = [self.plan(arg) for arg in ([node.target] if node.target is not None else []) + node.args]
        runs = [arg.run for arg in args]
        match node.function:
            case "_==_" | "_!=_":
                return Planned(_equality(args[0], args[1], negated=node.function == "_!=_"))
            case "or" | "orValue":
                return Planned(_optional_or(runs[0], runs[1], value=node.function == "orValue"))
            case "@in" if node.overloads == ["in_list"] and args[1].is_constant:
                found = _membership(args[0].run, args[1].constant)
                if found is not None:
                    return found
        if node.function in CONVERSIONS and args[0].is_constant:
            return _folded(dispatch(node.function, node.overloads, runs, {}), self._meter)
        compiled: dict[int, Any] = {}
        if node.function in _REGEX_FUNCTIONS and args[1].is_constant and args[1].constant.__class__ is str:
            try:
                compiled[1] = Regex(args[1].constant, self._meter)
            except RegexError as error:
                raise CelCompileError(f"program instantiation failed: {error}") from None
        return Planned(dispatch(node.function, node.overloads, runs, compiled))


def _count(node: Node) -> int:
    """Return how many nodes are evaluated each time that a node is; those of loops in it count themselves."""
    count, stack = 0, [node]
    while stack:
        each = stack.pop()
        count += 1
        if count > _MOST_COUNTED:
            break
        stack.extend((each.iter_range,) if isinstance(each, Comprehension) else children_of(each))
    return count


def _constant(value: Any) -> Planned:
    return Planned(lambda _: value, constant=value)


def _folded(run: Run, meter: Meter) -> Planned:
    """Return the value that a function returns, as a constant."""
    inner = Meter(meter.pause)
    try:
        return _constant(run(inner))
    except CelError as error:
        raise CelCompileError(f"program instantiation failed: {error}") from None
    finally:
        meter.tick(inner.steps)


def _attribute(attribute: Attribute | Conditional) -> Planned:
    return Planned(attribute.compiled(), attribute=attribute)


def _bind(slot: int, body: Run) -> Run:
    def run(meter: Meter) -> Any:
        meter.slots[slot] = UNSET
        return body(meter)

    return run


def _logical(left: Run, right: Run, *, decides: bool) -> Run:
    """Return ``||`` if True decides, else ``&&``."""
    other = not decides

    def run(meter: Meter) -> bool:
        problem: CelError | None = None
        try:
            value = left(meter)
            if value is decides:
                return bool(decides)
            if value is not other:
                problem = CelError(NO_OVERLOAD)
        except CelError as error:
            problem = error
        try:
            value = right(meter)
        except CelError as error:
            raise problem or error from None
        if value is decides:
            return bool(decides)
        if problem is None and value is other:
            return bool(other)
        raise problem or CelError(NO_OVERLOAD)

    return run


def _equality(left: Planned, right: Planned, *, negated: bool) -> Run:
    one, other = left.run, right.run
    cost = inequality_cost if negated else equality_cost
    text = right.constant if right.is_constant and right.constant.__class__ is str else None
    length = len(text) if text is not None else 0

    def run(meter: Meter) -> bool:
        try:
            a = one(meter)
        except CelError:
            charge_failure(meter, cost, other)
            raise
        if text is not None and a.__class__ is str:
            size = len(a)
            meter.cost += tenth(min(length, size))
            return (a == text) is not negated
        try:
            b = other(meter)
        except CelError:
            meter.cost += cost(meter, a, FAILED)
            raise
        meter.cost += cost(meter, a, b)
        if not negated:
            return equal(a, b, meter)
        try:
            return not equal(a, b, meter)
        except CelError:
            return True

    return run


def _optional_or(left: Run, right: Run, *, value: bool) -> Run:
    def run(meter: Meter) -> Any:
        found = left(meter)
        if found.__class__ is not Optional:
            return found
        if found is NO_VALUE:
            return right(meter)
        return found.value if value else found

    return run


def _membership(value_run: Run, members: Any) -> Planned | None:
    """Return whether a value is one of a constant list, looked up at once; None where this cannot be done."""
    if not len(members):
        return _constant(False)
    keys: set[Any] = set()
    for member in members:
        kind = member.__class__
        if kind not in _PRIMITIVE:
            return None
        keys.add(key_of(member))
        if kind is float:
            if member == member // 1 and abs(member) < 2.0**64:
                whole = int(member)
                keys.update({whole} if abs(whole) < MAX_INT else ())
                keys.update({(UInt, whole)} if whole >= 0 else ())
        elif kind is int or kind is UInt:
            keys.add((float, float(member)))
            keys.update({(UInt, int(member))} if member >= 0 else ())
            keys.update({int(member)} if member <= MAX_INT else ())

    def run(meter: Meter) -> bool:
        return key_of(value_run(meter)) in keys

    return Planned(run)
