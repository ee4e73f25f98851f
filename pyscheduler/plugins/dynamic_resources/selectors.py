"""Device selectors: does a device satisfy an expression in CEL.

The allocator asks through `DeviceSelectors` and knows nothing of the language. `CelSelectors` answers with the package
common-expression-language, which comes with the extra ``dra``; without it every selector is an error, and a claim with
one waits. Devices that differ in nothing but their name share their `DeviceFacts`, which remember what each expression
said; and those that differ in what an expression does not ask for, as serial numbers, share what it says. So an
expression runs once per kind of device, not once per device, node or cycle.

Texts of errors are kube-scheduler's where the cause is the same; see `selector_source` for what is refused here.
Source: kube-scheduler 1.36, `k8s.io/dynamic-resource-allocation/cel`.
"""

from __future__ import annotations

import functools
import importlib
import logging
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
import msgspec

from pyscheduler.api import PySchedulerError, parse_quantity
from pyscheduler.plugins.dynamic_resources.selector_functions import (
    FUNCTION_TABLE,
    kind_of,
    quantity_value_of,
    version_value_of,
)
from pyscheduler.plugins.dynamic_resources.selector_source import SourceError, adapt
from pyscheduler.plugins.dynamic_resources.versions import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyscheduler.api import Device, DeviceAttribute

__all__ = ["CelSelectors", "DeviceFacts", "DeviceSelectorError", "DeviceSelectors"]

_MOST_DEVICES: Final = 200_000
_MOST_EXPRESSIONS: Final = 1024
_MOST_VERDICTS: Final = 100_000
_LONGEST: Final = 10 * 1024
_FUNCTION_FAILED: Final = re.compile(
    r"Python function call failed: \w+: (?P<why>.*?)(?:\. Check function arguments and their types\.?)?$", re.DOTALL
)
#: How Python says that a function does not take so many arguments.
_WRONG_NUMBER: Final = re.compile(r"\) (?:missing|takes) ")
_INSTALL: Final = "device selectors need a package that is not installed: pip install 'kube-pyscheduler[dra]'"


class DeviceSelectorError(PySchedulerError):
    """Report an expression that cannot be compiled, or that ended in an error on a device; the text says which.

    The text is what comes behind ``selector #0:`` in the message of a pod.
    """


@attrs.define(eq=False)
class DeviceFacts:
    """What selectors can ask about a device, and what they said; made by `DeviceSelectors.facts_of` alone."""

    driver: str
    device: Device
    #: By expression, whether the device satisfies it, or the text of the error.
    verdicts: dict[str, bool | str] = attrs.Factory(dict)
    #: What is wrong with its attributes, once that was looked at.
    problem: str | None = None
    #: The variables and functions of an evaluation, once there was one.
    context: Any = None


class DeviceSelectors(Protocol):
    """Answers whether devices satisfy expressions."""

    def facts_of(self, driver: str, device: Device) -> DeviceFacts:
        """Return the facts of a device; cheap for one that was asked for before."""
        ...

    def matches(self, expression: str, facts: DeviceFacts) -> bool:
        """Return whether the device satisfies the expression; raise `DeviceSelectorError` where that cannot be told."""
        ...


class CelSelectors:
    """`DeviceSelectors` in CEL."""

    __slots__ = ("_by_content", "_by_identity")

    def __init__(self) -> None:
        self._by_identity: dict[int, tuple[Device, DeviceFacts]] = {}
        self._by_content: dict[bytes, DeviceFacts] = {}

    def facts_of(self, driver: str, device: Device) -> DeviceFacts:
        known = self._by_identity.get(id(device))
        if known is not None and known[0] is device and known[1].driver == driver:
            return known[1]
        content = msgspec.json.encode(
            (driver, device.allow_multiple_allocations, device.attributes, device.capacity), order="sorted"
        )
        facts = self._by_content.get(content)
        if facts is None:
            facts = self._by_content[content] = DeviceFacts(driver, device)
        if len(self._by_identity) >= _MOST_DEVICES:
            self._by_identity.clear()
            self._by_content = {content: facts}
        self._by_identity[id(device)] = (device, facts)
        return facts

    def matches(self, expression: str, facts: DeviceFacts) -> bool:
        verdict = facts.verdicts.get(expression)
        if verdict is None:
            verdict = facts.verdicts[expression] = _verdict(expression, facts)
        if isinstance(verdict, str):
            raise DeviceSelectorError(verdict)
        return verdict


def _verdict(expression: str, facts: DeviceFacts) -> bool | str:
    compiled = _compiled(expression)
    if compiled.program is None:
        return f"CEL compile error: {compiled.why}"
    if facts.problem is None:
        facts.problem = _problem(facts.device)
    if facts.problem:
        return f"CEL runtime error: {facts.problem}"
    if compiled.references is None:
        return _run(compiled.program, facts)
    # Devices differ in serial numbers, which nobody asks for: what is asked for decides.
    asked = (facts.driver, facts.device.allow_multiple_allocations, *_values(facts, compiled.references))
    verdict = compiled.verdicts.get(asked)
    if verdict is None:
        if len(compiled.verdicts) >= _MOST_VERDICTS:
            compiled.verdicts.clear()
        verdict = compiled.verdicts[asked] = _run(compiled.program, facts)
    return verdict


def _values(facts: DeviceFacts, references: Sequence[tuple[str, str, str]]) -> Iterator[object]:
    """Yield what a device has under the names, each with its domain, and without where the driver's is meant."""
    for field, domain, name in references:
        found: Mapping[str, object] = facts.device.attributes if field == "attributes" else facts.device.capacity
        yield found.get(f"{domain}/{name}")
        yield found.get(name) if domain == facts.driver else None


def _run(program: Any, facts: DeviceFacts) -> bool | str:
    try:
        if facts.context is None:
            facts.context = _context(facts.driver, facts.device)
        result = program.execute(facts.context)
    except Exception as error:  # noqa: BLE001  # the library raises many kinds; each is the answer
        return f"CEL runtime error: {_reason(error)}"
    if isinstance(result, bool):
        return result
    kind = kind_of(result)
    return (
        f"CEL runtime error: CEL result of type {kind} could not be converted to bool: "
        f"unsupported native conversion from {kind} to 'bool'"
    )


# --- expressions ---------------------------------------------------------------------------------


@functools.cache
def _library() -> Any:
    """Return the CEL library, or None where it is not installed."""
    try:
        library = importlib.import_module("cel")
    except ModuleNotFoundError:
        return None
    # It logs what its callbacks raise; here that is an answer, and reported as one.
    logging.getLogger("cel").setLevel(logging.CRITICAL)
    return library


@attrs.define(eq=False)
class _Compiled:
    """An expression, ready to run, or `why` it is not; see `Source` for its references."""

    program: Any = None
    why: str = ""
    references: tuple[tuple[str, str, str], ...] | None = None
    #: By what a device has of what is asked for.
    verdicts: dict[tuple[object, ...], bool | str] = attrs.Factory(dict)


@functools.lru_cache(maxsize=_MOST_EXPRESSIONS)
def _compiled(expression: str) -> _Compiled:
    library = _library()
    if library is None:
        return _Compiled(why=_INSTALL)
    if len(expression) > _LONGEST:
        return _Compiled(why=f"compilation failed: Too long: may not be more than {_LONGEST} bytes")
    try:
        library.compile(expression)
        source = adapt(expression)
        program = library.compile(source.text)
    except SourceError as error:
        return _Compiled(why=f"compilation failed: {error}")
    except ValueError as error:
        before, mark, what = str(error).partition("ERROR:")
        return _Compiled(why=f"compilation failed: {(mark + what) or before}")
    compiled = _Compiled(program, references=source.references)
    if not source.uses_device:
        try:
            kind = kind_of(program.execute(library.Context({}, FUNCTION_TABLE)))
        except Exception:  # noqa: BLE001  # what it ends in is told when it is asked about a device
            return compiled
        if kind != "bool":
            return _Compiled(why=f"must evaluate to bool or the unknown type, not {kind}")
    return compiled


def _reason(error: Exception) -> str:
    """Return the text of an error in cel-go's words where the library has its own."""
    text = str(error)
    match error:
        case KeyError():
            return f"no such key: {error.args[0]}"
        case ZeroDivisionError():
            return "division by zero"
        case OverflowError():
            return "integer overflow"
        case TypeError():
            return "no such overload"
    # Names are known to be right: a function that is not found has no form for what it was given.
    failed = _FUNCTION_FAILED.search(text)
    if text.startswith("Undefined variable or function") or (
        failed is not None and _WRONG_NUMBER.search(failed["why"])
    ):
        return "no such overload"
    return failed["why"] if failed is not None else text


# --- devices -------------------------------------------------------------------------------------


def _context(driver: str, device: Device) -> Any:
    """Return what an expression can reach: the device, and functions."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in device.attributes.items():
        domain, identifier = _qualified(name, driver)
        attributes.setdefault(domain, {})[identifier] = _attribute_value(attribute)
    capacity: dict[str, dict[str, Any]] = {}
    for name, one in device.capacity.items():
        domain, identifier = _qualified(name, driver)
        capacity.setdefault(domain, {})[identifier] = quantity_value_of(parse_quantity(one.value))
    shown = {
        "driver": driver,
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
        "attributes": attributes,
        "capacity": capacity,
    }
    lookups = {"attributes_": _lookup(attributes), "capacity_": _lookup(capacity)}
    return _library().Context({"device": shown}, {**FUNCTION_TABLE, **lookups})


def _lookup(domains: Mapping[str, dict[str, Any]]) -> Any:
    """Return what answers with the content of a domain; one that is not there holds nothing."""

    def look_up(domain: Any) -> dict[str, Any]:
        if not isinstance(domain, str):
            raise TypeError("no such overload")
        return domains.get(domain) or {}

    return look_up


def _qualified(name: str, driver: str) -> tuple[str, str]:
    """Return domain and identifier of a name; without a domain it belongs to the driver."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _problem(device: Device) -> str:
    """Return what is wrong with an attribute that cannot be read, as lists cannot; empty where all can."""
    for name, attribute in device.attributes.items():
        try:
            _attribute_value(attribute)
        except ValueError as error:
            return f"attribute {name}: {error}"
    return ""


def _attribute_value(attribute: DeviceAttribute) -> Any:
    """Return the value of an attribute; raise `ValueError` for a form that is not known."""
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is None:
        raise ValueError("unsupported attribute value")
    try:
        return version_value_of(parse_version(attribute.version_value))
    except ValueError as error:
        raise ValueError(f"parse semantic version: {error}") from error
