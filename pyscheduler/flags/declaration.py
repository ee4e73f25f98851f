"""Declare flags as attributes: a class is a section of the help, and each of its attributes is a flag.

For example:

    @attrs.frozen(kw_only=True)
    class LeaderElectionFlags:
        lease_duration: float = flag(15.0, DURATION, "How long ...", name="leader-elect-lease-duration")

This flag is used as `--leader-elect-lease-duration=15s`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

from pyscheduler.flags import go_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = [
    "ADDRESS",
    "BOOL",
    "DURATION",
    "FILE",
    "FLOAT",
    "INT",
    "INT32",
    "LEVEL",
    "LIST",
    "MAP",
    "NAMED_PAIRS",
    "TEXT",
    "TEXTS",
    "VMODULE",
    "FlagCommand",
    "FlagOption",
    "FlagValue",
    "Kind",
    "collect",
    "flag",
    "flag_name",
    "given",
    "options",
]

T = TypeVar("T")
C = TypeVar("C")


@attrs.frozen(kw_only=True)
class Kind:
    """The type of a flag: its parser, its name in the help, and how repeated values are combined."""

    parse: Callable[[str], Any]
    metavar: str
    #: Combines the values of a repeated flag; without it, the last value is used.
    join: Callable[[Sequence[Any]], Any] | None = None
    #: The value of the flag if it is given without one.
    alone: str | None = None


def _strung(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(item for each in lists for item in each)


def _merged(maps: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {key: value for each in maps for key, value in each.items()}


BOOL: Final = Kind(parse=go_values.parse_bool, metavar="true|false", alone="true")
INT: Final = Kind(parse=go_values.parse_int(), metavar="INT")
INT32: Final = Kind(parse=go_values.parse_int(32), metavar="INT")
FLOAT: Final = Kind(parse=go_values.parse_float, metavar="NUMBER")
LEVEL: Final = Kind(parse=go_values.parse_level, metavar="N")
DURATION: Final = Kind(parse=go_values.parse_duration, metavar="DURATION")
ADDRESS: Final = Kind(parse=go_values.parse_address, metavar="IP")
TEXT: Final = Kind(parse=str, metavar="TEXT")
FILE: Final = Kind(parse=str, metavar="FILE")
TEXTS: Final = Kind(parse=str, metavar="NAME", join=tuple)
LIST: Final = Kind(parse=go_values.parse_list, metavar="A,B", join=_strung)
MAP: Final = Kind(parse=go_values.parse_map, metavar="KEY=VALUE,...", join=_merged)
VMODULE: Final = Kind(parse=go_values.parse_vmodule, metavar="PATTERN=N,...", join=_merged)
NAMED_PAIRS: Final = Kind(parse=go_values.parse_named_pair, metavar="CERT,KEY[:NAMES]", join=tuple)


def flag(
    default: T,
    kind: Kind,
    text: str,
    *,
    name: str = "",
    short: str = "",
    metavar: str = "",
    shown: str = "",
    hidden: bool = False,
) -> T:
    """Declare a flag; `text` is its help, and `shown` the default in the help.

    The name of the flag is `name`, else the attribute's name with `-` for `_`, without the unit of a duration.
    """
    stated = {"kind": kind, "help": text, "name": name, "short": short}
    metadata = {**stated, "metavar": metavar, "shown": shown, "hidden": hidden}
    field: T = attrs.field(default=default, metadata=metadata)
    return field


class FlagValue(click.ParamType[Any]):
    """Parses the text of a flag."""

    def __init__(self, kind: Kind, metavar: str) -> None:
        self.name = metavar
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of the text; raise `ConfigError` with pflag's message for an invalid text."""
        if not isinstance(value, str):
            return value
        try:
            return self._kind.parse(value)
        except ValueError as error:
            from pyscheduler.framework.errors import ConfigError

            name = ", ".join(param.opts) if param is not None else self.name
            shown = json.dumps(value, ensure_ascii=False)
            raise ConfigError(f'invalid argument {shown} for "{name}" flag: {error}') from error


class FlagOption(click.Option):
    """An option with its section of the help."""

    section: str = ""


class FlagCommand(click.Command):
    """A command whose help has sections, and whose flags may be written with `_` for `-`, as in kube-scheduler."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self.context_settings["token_normalize_func"] = lambda flag: flag.replace("_", "-")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list for each section, in the order of declaration."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                section = parameter.section if isinstance(parameter, FlagOption) else "Help"
                sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def options(cls: type, *, section: str) -> list[FlagOption]:
    """Return the options of a class of flags."""
    return [_option(field, section) for field in attrs.fields(cls)]


def _option(field: attrs.Attribute[Any], section: str) -> FlagOption:
    kind: Kind = field.metadata["kind"]
    long = f"--{flag_name(field)}"
    shown = field.metadata["shown"] or _shown(field.default, kind)
    text = field.metadata["help"]
    metavar = field.metadata["metavar"] or kind.metavar
    names = [f"-{field.metadata['short']}", long] if field.metadata["short"] else [long]
    alone: dict[str, Any] = {"is_flag": False, "flag_value": kind.alone} if kind.alone is not None else {}
    option = FlagOption(
        [*names, field.name],
        type=FlagValue(kind, metavar),
        multiple=kind.join is not None,
        metavar=metavar,
        help=f"{text} [default: {shown}]" if shown else text,
        hidden=field.metadata["hidden"],
        **alone,
    )
    option.section = section
    return option


def _shown(default: object, kind: Kind) -> str:
    """Return a default as the help shows it; "" for an empty one."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:g}s" if kind is DURATION else f"{default:g}"
    if isinstance(default, tuple):
        return ",".join(default)
    return "" if default is None or default in ("", {}) else str(default)


def flag_name(field: attrs.Attribute[Any]) -> str:
    """Return the name of a flag without dashes."""
    name = field.name.removesuffix("_seconds") if field.metadata["kind"] is DURATION else field.name
    return field.metadata["name"] or name.replace("_", "-")


def collect(cls: type[C], read: Mapping[str, Any]) -> C:
    """Return an object of a class of flags, from click's parameters by name."""
    values = {}
    for field in attrs.fields(cls):  # type: ignore[arg-type] # an attrs class, which mypy cannot be told
        value, join = read[field.name], field.metadata["kind"].join
        if _is_given(value):
            values[field.name] = join(value) if join is not None else value
    return cls(**values)


def given(cls: type, read: Mapping[str, Any]) -> Iterator[str]:
    """Yield the attributes whose flags were on the command line."""
    for field in attrs.fields(cls):
        if _is_given(read[field.name]):
            yield field.name


def _is_given(value: object) -> bool:
    return value is not None and value != ()
