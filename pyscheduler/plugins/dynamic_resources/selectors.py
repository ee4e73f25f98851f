"""Device selectors: check whether a device satisfies a CEL expression.

Source: kube-scheduler 1.36, `k8s.io/dynamic-resource-allocation/cel`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from kube_cel import CelCompileError, CelError, CelInternalError, Meter, compile_expression
from kube_cel.values import type_name
from pyscheduler.api import PySchedulerError
from pyscheduler.plugins.dynamic_resources.device_language import VARIABLES, device_value, problem_of, references_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kube_cel import Program
    from kube_cel.values import Map
    from pyscheduler.api import Device
    from pyscheduler.plugins.dynamic_resources.device_language import Reference

__all__ = ["DeviceFacts", "DeviceSelectorError", "DeviceSelectors"]

_MOST_DEVICES: Final = 200_000
_MOST_VALUES: Final = 5_000
_LONGEST: Final = 10 * 1024
_LONGEST_ERROR: Final = 4096
#: What is kept may weigh so much: about a byte each.
_MOST_WEIGHT: Final = 8 << 20
#: What one character of an expression weighs once it is compiled, an answer, and one value that an answer depends on.
_CHARACTER: Final = 250
_ANSWER: Final = 100
_VALUE: Final = 60


class DeviceSelectorError(PySchedulerError):
    """Report an expression that cannot be compiled, or that ended in an error on a device; the text says which.

    In the message of a pod, the text follows ``selector #0:``.
    """


@attrs.define(eq=False)
class DeviceFacts:
    """The facts that selectors can read of a device; only `DeviceSelectors.facts_of` makes them."""

    driver: str
    device: Device
    #: Another one for each.
    number: int = 0
    #: What is wrong with its attributes, once that was looked at.
    problem: str | None = None


@attrs.define(eq=False)
class _Compiled:
    """An expression: its program or `why` it has none, the attributes that it reads, and its answers."""

    program: Program | None = None
    why: str = ""
    references: tuple[Reference, ...] | None = None
    weight: int = 0
    #: By number of the facts.
    by_device: dict[int, bool | str] = attrs.Factory(dict)
    #: By what a device has of what is asked for.
    by_values: dict[tuple[object, ...], bool | str] = attrs.Factory(dict)


class DeviceSelectors:
    """Decides whether devices satisfy expressions."""

    __slots__ = ("_by_content", "_by_identity", "_compiled", "_numbered", "_values", "_weight")

    def __init__(self) -> None:
        self._by_identity: dict[int, tuple[Device, DeviceFacts]] = {}
        self._by_content: dict[bytes, DeviceFacts] = {}
        self._numbered = 0
        #: By number of the facts, devices as expressions see them.
        self._values: dict[int, Map] = {}
        #: In the order in which they were last asked for.
        self._compiled: OrderedDict[str, _Compiled] = OrderedDict()
        self._weight = 0

    @property
    def weight(self) -> int:
        """Return about how many bytes the expressions and their answers take."""
        return self._weight

    def facts_of(self, driver: str, device: Device) -> DeviceFacts:
        """Return the facts of a device; they are cached."""
        known = self._by_identity.get(id(device))
        if known is not None and known[0] is device and known[1].driver == driver:
            return known[1]
        content = msgspec.json.encode(
            (driver, device.allow_multiple_allocations, device.attributes, device.capacity), order="sorted"
        )
        facts = self._by_content.get(content)
        if facts is None:
            self._numbered += 1
            facts = self._by_content[content] = DeviceFacts(driver, device, self._numbered)
        if len(self._by_identity) >= _MOST_DEVICES:
            self._by_identity.clear()
            self._by_content = {content: facts}
        self._by_identity[id(device)] = (device, facts)
        return facts

    def matches(self, expression: str, facts: DeviceFacts, pause: Callable[[], None] | None = None) -> bool:
        """Return whether the device satisfies the expression; raise `DeviceSelectorError` if the evaluation fails.

        The evaluation calls `pause` now and then; what `pause` raises is passed on.
        """
        compiled = self._compiled.get(expression)
        if compiled is None:
            compiled = self._compile(expression, pause)
        verdict = compiled.by_device.get(facts.number)
        if verdict is None:
            verdict = self._verdict(compiled, facts, pause)
            compiled.by_device[facts.number] = verdict
            self._add_weight(expression, compiled, _ANSWER)
        if verdict.__class__ is str:
            raise DeviceSelectorError(verdict)
        return bool(verdict)

    def _verdict(self, compiled: _Compiled, facts: DeviceFacts, pause: Callable[[], None] | None) -> bool | str:
        if compiled.program is None:
            return compiled.why
        if facts.problem is None:
            facts.problem = problem_of(facts.device)
        if facts.problem:
            return _shortened(f"CEL runtime error: {facts.problem}")
        if compiled.references is None:
            return self._run(compiled.program, facts, pause)
        # Devices differ in serial numbers, which nobody asks for: what is asked for decides.
        asked = (facts.driver, facts.device.allow_multiple_allocations, *_values(facts, compiled.references))
        verdict = compiled.by_values.get(asked)
        if verdict is None:
            verdict = compiled.by_values[asked] = self._run(compiled.program, facts, pause)
            compiled.weight += _VALUE * len(asked)
            self._weight += _VALUE * len(asked)
        return verdict

    def _run(self, program: Program, facts: DeviceFacts, pause: Callable[[], None] | None) -> bool | str:
        value = self._values.get(facts.number)
        if value is None:
            value = device_value(facts.driver, facts.device)
            if len(self._values) >= _MOST_VALUES:
                self._values.clear()
            self._values[facts.number] = value
        try:
            result = program.evaluate((value,), Meter(pause))
        except (CelError, CelInternalError) as error:
            return _shortened(f"CEL runtime error: {error}")
        if result.__class__ is bool:
            return bool(result)
        return _shortened(f"CEL runtime error: {_conversion_error(result)}")

    # Expressions

    def _compile(self, expression: str, pause: Callable[[], None] | None) -> _Compiled:
        compiled = _Compiled(weight=1024 + _CHARACTER * len(expression))
        if len(expression.encode(errors="replace")) > _LONGEST:
            compiled.why = "CEL compile error: compilation failed: expression is too long"
        else:
            try:
                compiled.program = compile_expression(expression, VARIABLES, Meter(pause))
                compiled.references = references_of(compiled.program.root)
            except (CelCompileError, CelInternalError) as error:
                compiled.why = _shortened(f"CEL compile error: {error}")
        self._compiled[expression] = compiled
        self._weight += compiled.weight
        self._forget_old(expression)
        return compiled

    def _add_weight(self, expression: str, compiled: _Compiled, weight: int) -> None:
        """Count the bytes that the expression in use gained."""
        if self._compiled.get(expression) is not compiled:
            return  # it was forgotten while it was evaluated
        compiled.weight += weight
        self._weight += weight
        self._compiled.move_to_end(expression)
        if self._weight > _MOST_WEIGHT:
            self._forget_old(expression)

    def _forget_old(self, kept: str) -> None:
        """Forget the expressions that were used least recently; the one in use loses only its answers."""
        while self._weight > _MOST_WEIGHT:
            oldest = next(iter(self._compiled))
            if oldest == kept:
                only = self._compiled[kept]
                only.by_device.clear()
                only.by_values.clear()
                only.weight = self._weight = 1024 + _CHARACTER * len(kept)
                return
            self._weight -= self._compiled.pop(oldest).weight


def _values(facts: DeviceFacts, references: tuple[Reference, ...]) -> Iterator[object]:
    """Yield two values for each reference: under the name with its domain, and without it if it is the driver's."""
    for field, domain, name in references:
        found: Mapping[str, object] = facts.device.attributes if field == "attributes" else facts.device.capacity
        yield found.get(f"{domain}/{name}")
        yield found.get(name) if domain == facts.driver else None


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}..."


_NATIVE: Final = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "string": "unsupported native conversion from string to 'bool'",
}


def _conversion_error(value: object) -> str:
    kind = type_name(value)
    return f"CEL result of type {kind} could not be converted to bool: {_NATIVE.get(kind, _no_conversion(kind))}"


def _no_conversion(kind: str) -> str:
    return f"type conversion error from '{kind.removeprefix('kubernetes.')}' to 'bool'"
