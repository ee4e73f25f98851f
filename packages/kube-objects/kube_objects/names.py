"""Check the syntax of label keys, label values and resource names, with the messages of the API server."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NAME_FORMAT: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_FORMAT: Final = f"({_NAME_FORMAT})?"
_SUBDOMAIN_FORMAT: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME: Final = re.compile(_NAME_FORMAT)
_VALUE: Final = re.compile(_VALUE_FORMAT)
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_FORMAT)
_MAX_NAME: Final = 63
_MAX_SUBDOMAIN: Final = 253

_CHARACTERS: Final = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_NAME_ERROR: Final = (
    f"must {_CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_FORMAT}')"
)
_VALUE_ERROR: Final = (
    f"a valid label must be an empty string or {_CHARACTERS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE_FORMAT}')"
)
_SUBDOMAIN_ERROR: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_SUBDOMAIN_FORMAT}')"
)


@lru_cache(maxsize=1 << 12)
def label_key_errors(key: str) -> tuple[str, ...]:
    """Return what is wrong with a label key (or another qualified name), nothing when it is fine."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_NAME_ERROR} {hint}",)
    errors = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors += [f"prefix part {text}" for text in _subdomain_errors(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name.encode()) > _MAX_NAME:
        errors.append(f"name part must be no more than {_MAX_NAME} bytes")
    if _NAME.fullmatch(name) is None:
        errors.append(f"name part {_NAME_ERROR}")
    return tuple(errors)


@lru_cache(maxsize=1 << 12)
def label_value_errors(value: str) -> tuple[str, ...]:
    """Return what is wrong with a label value, nothing when it is fine."""
    errors = []
    if len(value.encode()) > _MAX_NAME:
        errors.append(f"must be no more than {_MAX_NAME} bytes")
    if _VALUE.fullmatch(value) is None:
        errors.append(_VALUE_ERROR)
    return tuple(errors)


@lru_cache(maxsize=1 << 12)
def is_extended_resource(name: str) -> bool:
    """Return whether a resource is defined outside Kubernetes, such as ``example.com/gpu``."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    # A quota counts the resource under this longer name, which has to be valid as well.
    return not label_key_errors(f"requests.{name}")


@lru_cache(maxsize=1 << 12)
def is_scalar_resource(name: str) -> bool:
    """Return whether the scheduler counts a resource besides CPU, memory, ephemeral storage and pods.

    It counts extended resources, huge pages, resources prefixed ``kubernetes.io/`` and attachable volumes, and
    ignores everything else in requests and allocatable amounts.
    """
    return (
        name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name or is_extended_resource(name)
    )


def _subdomain_errors(text: str) -> list[str]:
    errors = []
    if len(text.encode()) > _MAX_SUBDOMAIN:
        errors.append(f"must be no more than {_MAX_SUBDOMAIN} bytes")
    if _SUBDOMAIN.fullmatch(text) is None:
        errors.append(_SUBDOMAIN_ERROR)
    return errors
