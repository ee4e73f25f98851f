"""Parse IP addresses and networks for CEL.

Source: Kubernetes' CEL libraries ``ip`` and ``cidr``; Go's `net/netip`.
"""

from __future__ import annotations

import ipaddress
from typing import Final, TypeAlias

from kube_cel.errors import CelError
from kube_cel.formatting import quote_go
from kube_cel.values import Cidr, Ip

__all__ = [
    "contains_address",
    "contains_network",
    "is_global_unicast",
    "is_link_local_multicast",
    "is_link_local_unicast",
    "masked",
    "parse_address",
    "parse_network",
]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_LONGEST: Final = 256
_BROADCAST: Final = ipaddress.IPv4Address("255.255.255.255")


def _read(text: str) -> Address:
    """Return an address; raise `CelError` in the words of `netip.ParseAddr`."""
    shown = f"ParseAddr({quote_go(text[:_LONGEST])})"
    mark = next((letter for letter in text if letter in ".:%"), "")
    if not mark:
        raise CelError(f"{shown}: unable to parse IP")
    if mark == "%":
        raise CelError(f"{shown}: missing IPv6 address")
    try:
        if mark == ".":
            return ipaddress.IPv4Address(text)
        return ipaddress.IPv6Address(text)
    except ValueError:
        problem = _problem(text) if mark == "." else "unable to parse IP"
        raise CelError(f"{shown}: {problem}") from None


def _problem(text: str) -> str:
    """Return what is wrong with an IPv4 address."""
    fields, digits, value = 0, 0, 0
    for at, letter in enumerate(text):
        if letter.isascii() and letter.isdigit():
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero"
            value = value * 10 + int(letter)
            digits += 1
            if value > 255:
                return "IPv4 field has value >255"
        elif letter == ".":
            if not digits or at == len(text) - 1:
                return f"IPv4 field must have at least one digit (at {quote_go(text[at:])})"
            if fields == 3:
                return "IPv4 address too long"
            fields, digits, value = fields + 1, 0, 0
        else:
            return f"unexpected character (at {quote_go(text[at:])})"
    return "IPv4 address too short"


def parse_address(text: str) -> Ip:
    """Return the address that a text stands for; raise `CelError`."""
    shown = quote_go(text[:_LONGEST])
    try:
        address = _read(text)
    except CelError as error:
        raise CelError(f"IP Address {shown} parse error during conversion from string: {error}") from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise CelError(f"IP address {shown} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise CelError(f"IPv4-mapped IPv6 address {shown} is not allowed")
    return Ip(address)


def parse_network(text: str) -> Cidr:
    """Return the address with a prefix length that a text stands for; raise `CelError`."""
    shown = quote_go(text[:_LONGEST])
    before, slash, bits = text.rpartition("/")
    prefix = f"network address parse error during conversion from string: netip.ParsePrefix({shown}): "
    if not slash:
        raise CelError(f"{prefix}no '/'")
    try:
        address = _read(before)
    except CelError as error:
        raise CelError(prefix + str(error)) from None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise CelError(f"{prefix}IPv6 zones cannot be present in a prefix")
    is_number = bits.isascii() and bits.isdigit() and len(bits) <= 3 and (len(bits) == 1 or bits[0] != "0")
    if not is_number:
        raise CelError(f"{prefix}bad bits after slash: {quote_go(bits[:_LONGEST])}")
    if int(bits) > address.max_prefixlen:
        raise CelError(f"{prefix}prefix length out of range")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f"IPv4-mapped IPv6 address {shown} is not allowed")
    return Cidr(address, int(bits))


def _network(cidr: Cidr) -> int:
    return int(cidr.address) >> (cidr.address.max_prefixlen - cidr.bits)


def masked(cidr: Cidr) -> Cidr:
    """Return a network with the bits behind its prefix cleared."""
    rest = cidr.address.max_prefixlen - cidr.bits
    return Cidr(type(cidr.address)(int(cidr.address) >> rest << rest), cidr.bits)


def contains_address(cidr: Cidr, ip: Ip) -> bool:
    """Return whether an address belongs to a network."""
    if cidr.address.version != ip.address.version:
        return False
    return _network(cidr) == int(ip.address) >> (ip.address.max_prefixlen - cidr.bits)


def contains_network(cidr: Cidr, other: Cidr) -> bool:
    """Return whether a network belongs to another."""
    return cidr.bits <= other.bits and contains_address(cidr, Ip(other.address))


def is_link_local_multicast(address: Address) -> bool:
    """Return whether an address is a multicast address that is valid on one link only."""
    if isinstance(address, ipaddress.IPv4Address):
        return int(address) >> 8 == 0xE00000
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2


def is_link_local_unicast(address: Address) -> bool:
    """Return whether an address is valid on one link only."""
    return int(address) >> 16 == 0xA9FE if address.version == 4 else int(address) >> 118 == 0x3FA


def is_global_unicast(address: Address) -> bool:
    """Return whether an address is for one machine anywhere, private networks included."""
    return not (
        address == _BROADCAST
        or address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or is_link_local_unicast(address)
    )
