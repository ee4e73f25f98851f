"""Checks of names in objects: their form, and duplicates, with kube-apiserver's messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kube_testserver.errors import FieldProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["duplicate_problems", "label_problems", "subdomain_problems"]

_SUBDOMAIN_FORMAT: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_FORMAT: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_FORMAT)
_LABEL: Final = re.compile(_LABEL_FORMAT)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_FORMAT}')"
)
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL_FORMAT}')"
)


def label_problems(path: str, name: str) -> Iterator[FieldProblem]:
    """Yield what keeps a name from being a label of DNS, such as ``my-name``."""
    if not _LABEL.fullmatch(name):
        yield FieldProblem.invalid(path, name, _LABEL_RULE)
    elif len(name) > 63:
        yield FieldProblem.invalid(path, name, "must be no more than 63 bytes")


def subdomain_problems(path: str, name: str) -> Iterator[FieldProblem]:
    """Yield what keeps a name from being a subdomain of DNS, such as ``example.com``."""
    if len(name) > 253:
        yield FieldProblem.invalid(path, name, "must be no more than 253 bytes")
    elif not _SUBDOMAIN.fullmatch(name):
        yield FieldProblem.invalid(path, name, _SUBDOMAIN_RULE)


def duplicate_problems(path: str, keys: Iterable[str]) -> Iterator[FieldProblem]:
    """Yield a problem for every repeated key in a list."""
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if key in seen:
            yield FieldProblem.duplicate(f"{path}[{index}]", key)
        seen.add(key)
