"""Check the arguments that tests pass to the test kit; the error for a common mistake says what to write instead."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyscheduler.api import KubeObject, Pod, QuantityError, parse_quantity
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.interfaces import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "check_amounts",
    "check_config",
    "check_disable",
    "check_enable",
    "check_feature_gates",
    "check_name",
    "check_pod",
    "check_type",
]


def check_enable(enable: object) -> None:
    """Raise `TypeError` unless `enable` is a sequence of plugin classes and names."""
    if isinstance(enable, (str, type)):
        written = f'"{enable}"' if isinstance(enable, str) else enable.__name__
        raise TypeError(f"enable= takes a list; write enable=[{written}]")
    for each in enable:  # type: ignore[attr-defined] # what is no iterable raises a TypeError, too
        if isinstance(each, Plugin):
            name = type(each).__name__
            raise TypeError(f"enable= takes classes, because the framework makes the plugin; write enable=[{name}]")
        if isinstance(each, str) or (inspect.isclass(each) and issubclass(each, Plugin)):
            continue
        what = (
            f"class {each.__name__}, which does not inherit from pyscheduler.Plugin" if inspect.isclass(each) else each
        )
        raise TypeError(f"enable= takes plugin classes, or names of installed plugins, not {what}")


def check_disable(disable: object, known: Iterable[str]) -> None:
    """Raise `TypeError` unless `disable` is a sequence of names, and `ConfigError` for a name that no plugin has."""
    if isinstance(disable, str):
        raise TypeError(f'disable= takes a list; write disable=["{disable}"]')
    names = {*known, "*"}
    problems = []
    for each in disable:  # type: ignore[attr-defined] # the same
        if inspect.isclass(each):
            raise TypeError(f'disable= takes names; write disable=["{getattr(each, "name", each.__name__)}"]')
        if each not in names:
            close = difflib.get_close_matches(str(each), names, n=1)
            meant = f', did you mean "{close[0]}"?' if close else ""
            problems.append(f'disable=: plugin "{each}" does not exist{meant}')
    if problems:
        raise ConfigError(*problems)


def check_feature_gates(gates: object) -> None:
    """Raise `TypeError` unless `gates` is a text."""
    if isinstance(gates, str):
        return
    pairs = gates.items() if isinstance(gates, Mapping) else ()
    written = ",".join(f"{name}={str(value).lower()}" for name, value in pairs) or "OpportunisticBatching=true"
    raise TypeError(f'feature_gates= takes a text as in --feature-gates, not {type(gates).__name__}; write "{written}"')


def check_config(config: object, **ignored: object) -> None:
    """Raise `TypeError` unless `config` is a text or None, and `ConfigError` for arguments that it makes void."""
    if config is not None and not isinstance(config, str):
        remedy = "path.read_text()" if hasattr(config, "read_text") else "yaml.safe_dump(...)"
        what = type(config).__name__
        raise TypeError(f"config= takes the text of a KubeSchedulerConfiguration, not {what}; write {remedy}")
    void = [f"{name}=" for name, value in ignored.items() if value]
    if config is not None and void:
        what = " and ".join(void)
        raise ConfigError(f"{what} cannot be combined with config=, which has the profiles; write it into the text")


def check_pod(pod: object, method: str) -> None:
    """Raise `TypeError` unless `pod` is a pod."""
    if not isinstance(pod, Pod):
        remedy = f'make_pod("{pod}")' if isinstance(pod, str) else "make_pod(name, ...)"
        raise TypeError(f"{method}() takes a pod, not {type(pod).__name__}; write {remedy}")


def check_name(name: object, method: str) -> None:
    """Raise `TypeError` unless `name` is a text."""
    if isinstance(name, KubeObject):
        where = ", namespace=...namespace" if name.namespace else ""
        raise TypeError(f"{method}() takes a name, not a {type(name).__name__}; write {method}(....name{where})")
    if not isinstance(name, str):
        raise TypeError(f"{method}() takes a name, not {type(name).__name__}")


def check_type(type_: object, method: str) -> None:
    """Raise `TypeError` unless `type_` is the class of a kind."""
    if not (inspect.isclass(type_) and issubclass(type_, KubeObject)):
        written = type_ if isinstance(type_, str) else "Pod"
        raise TypeError(
            f"{method}() takes the class of a kind, not {type_!r}; write {method}({written}, ...), with {written} from "
            "pyscheduler.api, or a class of your own that inherits KubeObject"
        )


def check_amounts(amounts: Mapping[str, object], argument: str) -> dict[str, object]:
    """Return the amounts; raise `QuantityError` that names the first that is no quantity."""
    if not hasattr(amounts, "items"):
        raise TypeError(f'{argument}= takes a mapping such as {{"cpu": "500m"}}, not {type(amounts).__name__}')
    for resource, amount in amounts.items():
        try:
            if not isinstance(amount, (str, int, float)) or isinstance(amount, bool):
                raise QuantityError(f"{amount!r} is no quantity; write it like 500m, 2, 1.5Gi or 1e3")
            parse_quantity(amount)
        except QuantityError as error:
            raise QuantityError(f'{argument}["{resource}"]: {error}') from None
    return dict(amounts)
