"""The CEL library ``format``: named formats for strings, such as ``dns1123Label``.

Source: Kubernetes' CEL library ``format``; many messages come from `k8s.io/apimachinery/pkg/util/validation`.
"""

from __future__ import annotations

import binascii
import datetime as dt
import functools
import re
from base64 import b64decode
from typing import TYPE_CHECKING, Final

from kube_cel.urls import url_problem
from kube_cel.values import NamedFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_cel.meter import Meter

__all__ = ["FORMATS"]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_LABEL_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_LABEL_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)
_UUID: Final = re.compile("-?".join(f"[0-9a-fA-F]{{{size}}}" for size in (8, 4, 4, 4, 12)), re.ASCII)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)


def _rule(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _checked(text: str, most: int, pattern: str, rule: str) -> list[str]:
    found = [] if len(text.encode()) <= most else [f"must be no more than {most} bytes"]
    # The patterns are ours and never go back; long texts are refused before.
    if len(text) > 4096 or re.fullmatch(pattern, text, re.ASCII) is None:
        found.append(rule)
    return found


_label: Final = functools.partial(
    _checked, most=63, pattern=_LABEL, rule=_rule(_LABEL_RULE, _LABEL, "my-name", "123-abc")
)
_subdomain: Final = functools.partial(
    _checked, most=253, pattern=_SUBDOMAIN, rule=_rule(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com")
)
_label_1035: Final = functools.partial(
    _checked, most=63, pattern=_LABEL_1035, rule=_rule(_LABEL_1035_RULE, _LABEL_1035, "my-name", "abc-123")
)
_label_value: Final = functools.partial(
    _checked,
    most=63,
    pattern=_LABEL_VALUE,
    rule=_rule(_LABEL_VALUE_RULE, _LABEL_VALUE, "MyValue", "my_value", "12345"),
)


def _qualified_name(text: str) -> list[str]:
    found: list[str] = []
    parts = text.split("/")
    name = parts[-1]
    rule = _rule(_QUALIFIED_RULE, _QUALIFIED, "MyName", "my.name", "123-abc")
    if len(parts) > 2:
        whole = _rule(f"a qualified name {_QUALIFIED_RULE}", _QUALIFIED, "MyName", "my.name", "123-abc")
        return [f"{whole} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            found += [f"prefix part {problem}" for problem in _subdomain(parts[0])]
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        found.append("name part must be no more than 63 bytes")
    if len(name) > 4096 or re.fullmatch(_QUALIFIED, name, re.ASCII) is None:
        found.append(f"name part {rule}")
    return found


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Return a check of the beginning of a name, to which more is added."""

    def run(text: str) -> list[str]:
        return check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)

    return run


def _uri(text: str) -> list[str]:
    problem = url_problem(text)
    return [problem] if problem else []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        is_valid = bool(text) and len(text) % 4 == 0 and bool(b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        is_valid = False
    return [] if is_valid else ["invalid base64"]


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    try:
        dt.date(int(match[1]) or 4, int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


def _date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    parts = text.lower().split("t")
    match = _TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    is_valid = match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"
    return [] if is_valid else ["invalid datetime"]


_CHECKS: Final[dict[str, tuple[str, Callable[[str], list[str]], int]]] = {
    "dns1123Label": ("DNS1123Label", _label, 30),
    "dns1123Subdomain": ("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": ("DNS1035Label", _label_1035, 30),
    "qualifiedName": ("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": ("DNS1123LabelPrefix", _prefix(_label), 30),
    "dns1123SubdomainPrefix": ("DNS1123SubdomainPrefix", _prefix(_subdomain), 60),
    "dns1035LabelPrefix": ("DNS1035LabelPrefix", _prefix(_label_1035), 30),
    "labelValue": ("LabelValue", _label_value, 40),
    "uri": ("URI", _uri, 1103),
    "uuid": ("uuid", _uuid, 70),
    "byte": ("byte", _byte, 84),
    "date": ("date", _date, 71),
    "datetime": ("datetime", _datetime, 71),
}


def _made(name: str, check: Callable[[str], list[str]], size: int) -> NamedFormat:
    def run(text: str, meter: Meter) -> list[str]:
        meter.tick(len(text) >> 4)
        return check(text)

    return NamedFormat(name, run, size)


FORMATS: Final = {name: _made(*parts) for name, parts in _CHECKS.items()}
"""The formats by name."""
