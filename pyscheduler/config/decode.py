"""Convert values of a configuration to typed objects, and report every mistake, such as an unknown key.

Differs from kube-scheduler: `null` is accepted for all durations.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import ctypes
import difflib
import enum
import functools
import math
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
import cattrs

from kube_objects.durations import parse_duration
from kube_objects.quantity import Quantity
from pyscheduler.config.args_classes import unsupported_type, wrong_defaults
from pyscheduler.config.fields import Field, fields_of, is_record
from pyscheduler.config.problems import Path, Problem, shown, unsupported
from pyscheduler.config.types import API_VERSION, GROUP, PluginConfig
from pyscheduler.framework.in_tree_args import IN_TREE_ARGS
from pyscheduler.framework.plugin_args import Duration, Float32, Int32

__all__ = ["Mistakes", "decode", "decode_args", "decode_what_can_be"]

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]

_LISTS: Final[Mapping[object, Callable[[list[object]], object]]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    Sequence: tuple,
    Collection: tuple,
}
_LONGEST_SHOWN: Final = 60
#: A shorter part of a name says too little about what was meant.
_SHORTEST_PREFIX: Final = 3
_STRING: Final = "a string"


class Mistakes(Exception):  # noqa: N818 - several mistakes; users never see this exception
    """The mistakes in a value, with paths relative to it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


def decode(value: object, kind: type[T]) -> T:
    """Return `value` as a `kind`; raise `Mistakes`."""
    try:
        result: T = _converter().structure(value, kind)
    except Mistakes:
        raise
    except Exception as error:
        raise Mistakes(_problems(error)) from error
    return result


def decode_what_can_be(value: Mapping[str, object], kind: type[T]) -> tuple[T, list[Problem]]:
    """Return `value` without its invalid parts as a `kind`, and the mistakes; no key of `kind` may be required.

    So a file with structural mistakes can still be checked for bad values.
    """
    try:
        return decode(value, kind), []
    except Mistakes as mistakes:
        pruned: object = value
        for problem in mistakes.problems:
            pruned = _without(pruned, problem.path)
        return decode(pruned, kind), list(mistakes.problems)


def decode_args(name: str, value: Mapping[str, object] | None, kind: type[T]) -> T:
    """Return the args of plugin `name` as an object of class `kind`; raise `Mistakes`.

    `kind` and `apiVersion` are allowed among the args, as in any Kubernetes object; they must be the plugin's.
    """
    given = dict(value or {})
    problems: list[Problem] = []
    stated = given.pop("kind", None)
    version = given.pop("apiVersion", None)
    for key, text in (("kind", stated), ("apiVersion", version)):
        if text is not None and not isinstance(text, str):
            problems.append(Problem((key,), _mismatch(_STRING, text)))
    if isinstance(stated, str) and stated not in {"", f"{name}Args"}:
        expected = f"{name}Args.{GROUP}"
        problems.append(Problem(("kind",), f"args for plugin {name} were not of type {expected}, got {stated}.{GROUP}"))
    # Other plugins may have their own API group.
    if name in IN_TREE_ARGS and isinstance(version, str) and version not in {"", API_VERSION}:
        meant = stated if isinstance(stated, str) and stated else f"{name}Args"
        problems.append(Problem(("apiVersion",), f'no kind "{meant}" is registered for version "{version}"'))
    try:
        args = decode(given, kind)
    except Mistakes as mistakes:
        raise Mistakes([*problems, *mistakes.problems]) from mistakes
    if problems:
        raise Mistakes(problems)
    return args


@functools.cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=False)
    converter.register_structure_hook(bool, _scalar("true or false", bool, False))
    converter.register_structure_hook(str, _exact(str, _scalar(_STRING, str, "")))
    converter.register_structure_hook(int, _exact(int, _integer(64)))
    converter.register_structure_hook(float, _exact(float, _number))
    converter.register_structure_hook(bytes, _exact(bytes, _bytes))
    converter.register_structure_hook(Quantity, _quantity)
    converter.register_structure_hook_func(lambda kind: kind is object or kind is Any, lambda value, _: value)
    converter.register_structure_hook_func(lambda kind: kind == Int32, _integer(32))
    converter.register_structure_hook_func(lambda kind: kind == Float32, _single)
    converter.register_structure_hook_func(lambda kind: kind == Duration, _duration)
    converter.register_structure_hook_factory(_is_choice, _choice_hook)
    converter.register_structure_hook_factory(_is_list, lambda kind: _list_hook(converter, kind))
    converter.register_structure_hook_factory(_is_mapping, lambda kind: _mapping_hook(converter, kind))
    converter.register_structure_hook_factory(_is_union, lambda kind: _union_hook(converter, kind))
    converter.register_structure_hook_factory(is_record, lambda kind: _record_hook(converter, kind))
    record = _record_hook(converter, PluginConfig)
    converter.register_structure_hook(PluginConfig, lambda value, kind: _plugin_config(record(value, kind)))
    return converter


# --- scalars ------------------------------------------------------------------------------------


def _exact(base: type, scalar: Hook) -> Hook:
    """Return a hook for `base`, which cattrs calls for subclasses, too: enums are choices, others are refused."""

    def hook(value: object, kind: Any) -> object:
        if not isinstance(kind, type) or kind is base:
            return scalar(value, kind)
        if _is_choice(kind):
            return _choice_hook(kind)(value, kind)
        raise ValueError(f"args cannot have the type {kind.__name__}; write {base.__name__}")

    return hook


def _scalar(expected: str, kind: type, zero: object) -> Hook:
    def hook(value: object, _: object) -> object:
        if value is None:
            return zero
        if isinstance(value, kind):
            return value
        raise _refusal(expected, value)

    return hook


def _integer(bits: int) -> Hook:
    largest = 2 ** (bits - 1) - 1

    def hook(value: object, _: object) -> int:
        if value is None:
            return 0
        # Go's decoder reads `5.0` in YAML as 5.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise _refusal("an integer", value)
        if not -largest - 1 <= value <= largest:
            raise ValueError(f"{value} does not fit an integer of {bits} bits")
        return value

    return hook


def _number(value: object, _: object) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _refusal("a number", value)
    return float(value)


def _single(value: object, kind: object) -> float:
    """Round to 32 bits and return the number with the shortest decimal text, as Go reads and prints a float32."""
    number = _number(value, kind)
    held = ctypes.c_float(number).value
    if math.isinf(held):
        raise ValueError(f"{number:g} does not fit a float of 32 bits")
    texts = (f"{held:.{digits}g}" for digits in range(1, 10))
    return next(float(text) for text in texts if ctypes.c_float(float(text)).value == held)


def _duration(value: object, _: object) -> float:
    if not isinstance(value, str):
        raise _refusal('a duration such as "15s" or "1m30s"', value)
    return parse_duration(value)


def _quantity(value: object, _: object) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _refusal('a quantity such as "500m", "1.5Gi" or 2', value)
    return Quantity(value)


def _bytes(value: object, _: object) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, str):
        raise _refusal("a string in base64", value)
    try:
        # Go ignores line ends, with which `base64` breaks long lines.
        return base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except binascii.Error:
        raise ValueError("illegal base64 data") from None


def _is_choice(kind: object) -> bool:
    return typing.get_origin(kind) is typing.Literal or (isinstance(kind, type) and issubclass(kind, enum.Enum))


def _choice_hook(kind: Any) -> Hook:
    """Accept one of the values of a `Literal` or an `Enum`."""
    listed = typing.get_args(kind)
    members = {each: each for each in listed} if listed else {each.value: each for each in kind}

    def hook(value: object, _: object) -> object:
        for known, member in members.items():
            if type(known) is type(value) and known == value:
                return member
        raise ValueError(unsupported((), value, list(members)).message)

    return hook


# --- what holds others --------------------------------------------------------------------------


def _is_list(kind: object) -> bool:
    origin = typing.get_origin(kind) or kind
    return origin in _LISTS and (origin is not tuple or typing.get_args(kind)[1:] in {(), (...,)})


def _is_mapping(kind: object) -> bool:
    return (typing.get_origin(kind) or kind) in {dict, Mapping}


def _is_union(kind: object) -> bool:
    return typing.get_origin(kind) in {typing.Union, types.UnionType}


def _list_hook(converter: cattrs.Converter, kind: Any) -> Hook:
    build = _LISTS[typing.get_origin(kind) or kind]
    item_kind = (*typing.get_args(kind), object)[0]
    item_hook = converter.get_structure_hook(item_kind)

    def hook(value: object, _: object) -> object:
        if value is None:
            value = []
        if not isinstance(value, list):
            raise _refusal("a list", value)
        items, problems = [], list[Problem]()
        for index, item in enumerate(value):
            with _collecting(problems, index):
                items.append(item_hook(item, item_kind))
        if problems:
            raise Mistakes(problems)
        return build(items)

    return hook


def _mapping_hook(converter: cattrs.Converter, kind: Any) -> Hook:
    item_kind = (*typing.get_args(kind), object, object)[1]
    item_hook = converter.get_structure_hook(item_kind)

    def hook(value: object, _: object) -> object:
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            raise _refusal("a mapping", value)
        items, problems = {}, list[Problem]()
        for key, item in value.items():
            with _collecting(problems, key):
                items[key] = item_hook(item, item_kind)
        if problems:
            raise Mistakes(problems)
        return items

    return hook


def _union_hook(converter: cattrs.Converter, kind: Any) -> Hook:
    """Convert with the first member of the union that accepts the value; None stays None if the union allows it."""
    arms = typing.get_args(kind)
    hooks = [(converter.get_structure_hook(arm), arm) for arm in arms if arm is not type(None)]

    def hook(value: object, _: object) -> object:
        if value is None and type(None) in arms:
            return None
        for try_hook, arm in hooks[:-1]:
            try:
                return try_hook(value, arm)
            except Exception:  # noqa: BLE001, S112 - any error means: try the next member
                continue
        last_hook, last = hooks[-1]
        return last_hook(value, last)

    return hook


def _record_hook(converter: cattrs.Converter, kind: Any) -> Hook:
    # Looked up late, because a class may contain itself.
    hooks = functools.cache(lambda: _field_hooks(converter, kind))

    def hook(value: object, _: object) -> object:
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            raise _refusal("a mapping", value)
        known = hooks()
        arguments: dict[str, object] = {}
        problems: list[Problem] = []
        for key, item in value.items():
            if key not in known:
                problems.append(Problem((key,), _unknown(key, known)))
            elif item is not None:
                field, field_hook = known[key]
                with _collecting(problems, key):
                    decoded = field_hook(item, field.type)
                    if decoded or not field.zero_is_unset:
                        arguments[field.argument] = decoded
        wrong = {problem.path[0] for problem in problems}
        problems += [
            Problem((key,), "Required value")
            for key, (field, _) in known.items()
            if field.required and field.argument not in arguments and key not in wrong
        ]
        if problems:
            raise Mistakes(problems)
        try:
            return kind(**arguments)
        except Exception as error:
            if not attrs.has(kind):
                raise
            raise Mistakes(_refused_values(kind, arguments, error)) from error

    return hook


def _field_hooks(converter: cattrs.Converter, kind: Any) -> Mapping[str, tuple[Field, Hook]]:
    """Return the fields of a record by key, with their hooks; raise `Mistakes` about wrong types and defaults."""
    found = {}
    problems = [Problem((), text) for text in wrong_defaults(kind)]
    for key, field in fields_of(kind).items():
        try:
            found[key] = field, converter.get_structure_hook(field.type)
        except cattrs.StructureHandlerNotFoundError as error:
            problems.append(Problem((), unsupported_type(kind, field, error.type_)))
    if problems:
        raise Mistakes(problems)
    return found


def _refused_values(
    kind: type[attrs.AttrsInstance], arguments: Mapping[str, object], error: Exception
) -> list[Problem]:
    """Return what the validators of an attrs class say, each at the key of its attribute; else the error itself."""
    problems: list[Problem] = []
    with contextlib.suppress(Exception), attrs.validators.disabled():
        made = kind(**arguments)
        for field in fields_of(kind).values():
            validator = getattr(attrs.fields_dict(kind)[field.attribute], "validator", None)
            try:
                if validator is not None:
                    validator(made, attrs.fields_dict(kind)[field.attribute], getattr(made, field.attribute))
            except Exception as refusal:  # noqa: BLE001 - validators may raise anything
                # attrs adds the attribute, the type and the value to the arguments of some errors.
                said = refusal.args[0] if refusal.args and isinstance(refusal.args[0], str) else str(refusal)
                text = " ".join(said.split()).replace(f"'{field.attribute}'", f"'{field.key}'")
                problems.append(Problem((field.key,), text or type(refusal).__name__))
    return problems or list(_problems(error))


def _plugin_config(entry: PluginConfig) -> PluginConfig:
    """Convert args whose class is known to typed objects, and leave the others unchanged."""
    if entry.args is not None and not isinstance(entry.args, Mapping):
        raise Mistakes([Problem(("args",), _mismatch("a mapping", entry.args))])
    kind = IN_TREE_ARGS.get(entry.name)
    if kind is None:
        return entry
    problems: list[Problem] = []
    with _collecting(problems, "args"):
        return PluginConfig(name=entry.name, args=decode_args(entry.name, entry.raw, kind))
    raise Mistakes(problems)


# --- mistakes -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _collecting(problems: list[Problem], step: str | int) -> Iterator[None]:
    """Convert exceptions of the block to problems at `step`."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - hooks of cattrs and other validators may raise anything
        problems.extend(problem.under(step) for problem in _problems(error))


def _problems(error: Exception) -> Sequence[Problem]:
    if isinstance(error, Mistakes):
        return error.problems
    text = " ".join(str(error).split())
    return [Problem((), text or type(error).__name__)]


def _refusal(expected: str, value: object) -> ValueError:
    return ValueError(_mismatch(expected, value))


def _mismatch(expected: str, value: object) -> str:
    hint = ", put it in quotes" if expected == _STRING and isinstance(value, (bool, int, float)) else ""
    return f"expected {expected}, found {_found(value)}{hint}"


def _found(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = shown(value)
    if len(text) > _LONGEST_SHOWN:
        text = f"{text[:_LONGEST_SHOWN]}..."
    return f"the string {text}" if isinstance(value, str) else text


def _unknown(key: str, known: Collection[str]) -> str:
    folded = {each.lower(): each for each in known}
    longer = [each for each in folded if len(key) >= _SHORTEST_PREFIX and each.startswith(key.lower())]
    close = longer or difflib.get_close_matches(key.lower(), folded, n=1)  # "poll" means "pollSeconds"
    hint = f', did you mean "{folded[close[0]]}"?' if close else ""
    return f"unknown field {shown(key)}{hint}"


def _without(value: object, path: Path) -> object:
    """Return a copy of `value` without the part at `path`; an item of a list becomes null."""
    if not path:
        return None
    step, *rest = path
    if isinstance(value, list):
        return [_without(item, tuple(rest)) if index == step else item for index, item in enumerate(value)]
    assert isinstance(value, Mapping)
    pruned = {key: item for key, item in value.items() if key != step or rest}
    if rest and step in pruned:
        pruned[step] = _without(pruned[step], tuple(rest))
    return pruned
