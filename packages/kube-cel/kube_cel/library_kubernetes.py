"""Kubernetes' own CEL functions in Python: quantities, versions, URLs, IP addresses, formats.

Source: Kubernetes 1.36, `k8s.io/apiserver/pkg/cel/library`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_cel import networks, quantities
from kube_cel.errors import CelError
from kube_cel.formats import FORMATS
from kube_cel.networks import parse_address, parse_network
from kube_cel.urls import parse_query, parse_url, url_problem
from kube_cel.values import NO_VALUE, Cidr, Ip, NamedFormat, Optional, Quantity, Semver, Url
from kube_cel.versions import parse_relaxed_version, parse_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_cel.meter import Meter

__all__ = ["FUNCTIONS", "semver_of"]

#: Longer texts are none of what is read here, but for URLs.
_LONGEST: Final = 4096


def _succeeds(read: Callable[..., Any]) -> Callable[..., bool]:
    def run(meter: Meter, *args: Any) -> bool:
        try:
            read(meter, *args)
        except CelError:
            return False
        return True

    return run


# --- quantities ----------------------------------------------------------------------------------


def _quantity(meter: Meter, text: str) -> Quantity:
    meter.tick(len(text) >> 2)
    return quantities.parse_quantity(text)


def _as_integer(meter: Meter, quantity: Quantity) -> int:
    value = quantities.as_integer(quantity)
    if value is None:
        raise CelError("cannot convert value to integer")
    return value


def _add(sign: int) -> Callable[[Meter, Quantity, Any], Quantity]:
    def run(meter: Meter, quantity: Quantity, other: Any) -> Quantity:
        amount = other if other.__class__ is Quantity else Quantity(other, 0, is_exact=True)
        meter.use(256 + quantity.value.bit_length() // 4 + amount.value.bit_length() // 4)
        return quantities.add_quantities(quantity, amount, sign)

    return run


def _compare_quantities(meter: Meter, left: Quantity, right: Quantity) -> int:
    meter.tick((left.value.bit_length() + right.value.bit_length()) >> 3)
    return quantities.compare_quantities(left, right)


# --- versions ------------------------------------------------------------------------------------


def semver_of(text: str, *, relaxed: bool = False) -> Semver:
    """Return a version; raise `CelError` for what is none."""
    try:
        version = (parse_relaxed_version if relaxed else parse_version)(text)
    except ValueError as error:
        raise CelError(str(error)) from None
    return Semver(version[:3], version)


def _semver(meter: Meter, text: str, relaxed: bool = False) -> Semver:
    meter.tick(len(text) >> 2)
    return semver_of(text, relaxed=relaxed)


def _compare_versions(meter: Meter, left: Semver, right: Semver) -> int:
    return (left.order > right.order) - (left.order < right.order)


def _version_number(place: int) -> Callable[[Meter, Semver], int]:
    def run(meter: Meter, version: Semver) -> int:
        # Go makes a signed number of it, whatever that does to the largest ones.
        return (version.numbers[place] + 2**63) % 2**64 - 2**63

    return run


# --- addresses, URLs, formats --------------------------------------------------------------------


def _ip(meter: Meter, text: str) -> Ip:
    return parse_address(_short(meter, text))


def _cidr(meter: Meter, text: str) -> Cidr:
    try:
        return parse_network(_short(meter, text))
    except CelError as error:
        raise CelError(f"network address parse error during conversion from string: {error}") from None


def _short(meter: Meter, text: str) -> str:
    meter.tick(len(text) >> 4)
    return text if len(text) <= _LONGEST else text[:_LONGEST]


def _contains_text(meter: Meter, cidr: Cidr, text: str) -> bool:
    try:
        ip = _ip(meter, text)
    except CelError:
        raise CelError("no such overload") from None
    return networks.contains_address(cidr, ip)


def _contains_network_text(meter: Meter, cidr: Cidr, text: str) -> bool:
    return networks.contains_network(cidr, _cidr(meter, text))


def _url(meter: Meter, text: str) -> Url:
    meter.made_text(4 * len(text))
    meter.tick(len(text) >> 1)
    return parse_url(text)


def _is_url(meter: Meter, text: str) -> bool:
    meter.made_text(4 * len(text))
    meter.tick(len(text) >> 1)
    return not url_problem(text)


def _query(meter: Meter, url: Url) -> Any:
    meter.use(256 * (1 + url.query.count("&")) + 4 * len(url.query))
    return parse_query(url.query)


def _validate(meter: Meter, format_: NamedFormat, text: str) -> Optional:
    meter.made_text(4 * len(text))
    problems = list(format_.check(text, meter))
    return Optional(problems) if problems else NO_VALUE


def _named(meter: Meter, name: str) -> Optional:
    found = FORMATS.get(name)
    return Optional(found) if found is not None else NO_VALUE


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_to_quantity": _quantity,
    "is_quantity_string": _succeeds(_quantity),
    "quantity_sign": lambda meter, value: (value.value > 0) - (value.value < 0),
    "quantity_is_greater_than": lambda meter, left, right: _compare_quantities(meter, left, right) > 0,
    "quantity_is_less_than": lambda meter, left, right: _compare_quantities(meter, left, right) < 0,
    "quantity_compare_to": _compare_quantities,
    "quantity_get_float": lambda meter, value: quantities.approximate(value),
    "quantity_get_int": _as_integer,
    "quantity_is_integer": lambda meter, value: quantities.as_integer(value) is not None,
    "quantity_add": _add(1),
    "quantity_add_int": _add(1),
    "quantity_sub": _add(-1),
    "quantity_sub_int": _add(-1),
    "string_to_semver": _semver,
    "string_bool_to_semver": _semver,
    "is_semver_string": _succeeds(_semver),
    "is_semver_string_bool": _succeeds(_semver),
    "semver_is_greater_than": lambda meter, left, right: _compare_versions(meter, left, right) > 0,
    "semver_is_less_than": lambda meter, left, right: _compare_versions(meter, left, right) < 0,
    "semver_compare_to": _compare_versions,
    "semver_major": _version_number(0),
    "semver_minor": _version_number(1),
    "semver_patch": _version_number(2),
    "string_to_url": _url,
    "is_url_string": _is_url,
    "url_get_scheme": lambda meter, url: url.scheme,
    "url_get_host": lambda meter, url: url.host,
    "url_get_hostname": lambda meter, url: url.hostname,
    "url_get_port": lambda meter, url: url.port,
    "url_get_escaped_path": lambda meter, url: url.path,
    "url_get_query": _query,
    "string_to_ip": _ip,
    "cidr_ip": lambda meter, cidr: Ip(cidr.address),
    "is_ip": _succeeds(_ip),
    "ip_is_canonical": lambda meter, text: str(_ip(meter, text).address) == text,
    "ip_family": lambda meter, ip: ip.address.version,
    "ip_is_unspecified": lambda meter, ip: ip.address.is_unspecified,
    "ip_is_loopback": lambda meter, ip: ip.address.is_loopback,
    "ip_is_link_local_multicast": lambda meter, ip: networks.is_link_local_multicast(ip.address),
    "ip_is_link_local_unicast": lambda meter, ip: networks.is_link_local_unicast(ip.address),
    "ip_is_global_unicast": lambda meter, ip: networks.is_global_unicast(ip.address),
    "string_to_cidr": _cidr,
    "is_cidr": _succeeds(_cidr),
    "cidr_contains_ip_string": _contains_text,
    "cidr_contains_ip_ip": lambda meter, cidr, ip: networks.contains_address(cidr, ip),
    "cidr_contains_cidr_string": _contains_network_text,
    "cidr_contains_cidr": lambda meter, cidr, other: networks.contains_network(cidr, other),
    "cidr_prefix_length": lambda meter, cidr: cidr.bits,
    "cidr_masked": lambda meter, cidr: networks.masked(cidr),
    "format-validate": _validate,
    "format-named": _named,
}
for _name, _format in FORMATS.items():
    FUNCTIONS[f"format.{_name}"] = lambda meter, found=_format: found
"""The function of each overload."""
