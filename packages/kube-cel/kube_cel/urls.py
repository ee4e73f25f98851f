"""Parse URLs and query strings for CEL.

Source: Kubernetes' CEL library ``url``, and Go's `net/url`.
"""

from __future__ import annotations

import re
from typing import Final

from kube_cel.errors import CelError
from kube_cel.formatting import quote_go
from kube_cel.values import Map, Url

__all__ = ["parse_query", "parse_url", "url_problem"]

_LONGEST: Final = 512
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE: Final = re.compile(r"%([0-9a-fA-F]{2})")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_BAD_HOST: Final = re.compile(r"[^\x80-\U0010ffffA-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"]")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
#: What a path may contain as it stands.
_PLAIN_PATH: Final = re.compile(r"(?:[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]]|%[0-9a-fA-F]{2})*", re.ASCII)
_KEPT: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@")


class _UrlError(Exception):
    """Report what is wrong with a URL."""


def _unescape(text: str, *, plus: bool = False) -> str:
    """Return a text with its escapes replaced; raise `_UrlError` for a wrong one."""
    if plus:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    if (wrong := re.search(r"%(?![0-9a-fA-F]{2})", text)) is not None:
        raise _UrlError(f"invalid URL escape {quote_go(text[wrong.start() : wrong.start() + 3])}")
    data = _ESCAPE.sub(lambda match: chr(int(match[1], 16) + 0xE000), text)
    raw = bytearray()
    for letter in data:
        code = ord(letter)
        raw += bytes((code - 0xE000,)) if 0xE000 <= code < 0xE100 else letter.encode()
    return raw.decode(errors="replace")


def _host(authority: str) -> tuple[str, str, str]:
    """Return host, host name and port; raise `_UrlError`."""
    user, at, host = authority.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise _UrlError("net/url: invalid userinfo")
    if at:
        _unescape(user)
    bracket = host.rfind("]") if host.startswith("[") else -1
    if host.startswith("["):
        if bracket < 0:
            raise _UrlError("missing ']' in host")
        port = host[bracket + 1 :]
    else:
        colon = host.rfind(":")
        port = host[colon:] if colon >= 0 else ""
    if not _PORT.fullmatch(port):
        raise _UrlError(f"invalid port {quote_go(port)} after host")
    plain = host if bracket < 0 else host[:bracket].partition("%25")[0]
    if (bad := _BAD_HOST.search(plain.replace("%", ""))) is not None:
        raise _UrlError(f"invalid character {quote_go(bad[0])} in host name")
    if "%" in plain:
        for escape in _ESCAPE.finditer(plain):
            if int(escape[1], 16) < 0x80:
                raise _UrlError(f"invalid URL escape {quote_go(escape[0])}")
    host = _unescape(host)
    name = host[: len(host) - len(port)] if port else host
    return host, name.removeprefix("[").removesuffix("]"), port.removeprefix(":")


def _parse(text: str, *, request: bool) -> Url:
    """Return a URL; as the target of a request it has to be absolute, and a fragment means nothing."""
    whole = text
    if not request:
        text, _, fragment = text.partition("#")
        _unescape(fragment)
    if _CONTROL.search(whole):
        raise _UrlError("net/url: invalid control character in URL")
    if not text and request:
        raise _UrlError("empty url")
    if text == "*":
        return Url(whole, "", "", "", "", "*", "")
    if text.startswith(":"):
        raise _UrlError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match is not None else ""
    rest = text[match.end() :] if match is not None else text
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(whole, scheme, "", "", "", "", query)
        if request:
            raise _UrlError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _UrlError("first path segment in URL cannot contain colon")
    host = name = port = ""
    if (scheme or (not request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        host, name, port = _host(authority)
    path = _unescape(rest)
    escaped = rest if _PLAIN_PATH.fullmatch(rest) else _escape(path)
    return Url(whole, scheme, host, name, port, escaped, query)


def _escape(path: str) -> str:
    if path == "*":
        return path
    return "".join(
        letter if letter in _KEPT else "".join(f"%{byte:02X}" for byte in letter.encode(errors="replace"))
        for letter in path
    )


def url_problem(text: str) -> str:
    """Return why a text is not a URL in Go's words, nothing where it is one."""
    try:
        _parse(text, request=True)
    except _UrlError as error:
        return f"parse {quote_go(text[:_LONGEST])}: {error}"
    return ""


def parse_url(text: str) -> Url:
    """Return the URL that a text stands for; raise `CelError`."""
    problem = url_problem(text)
    if not problem:
        try:
            return _parse(text, request=False)
        except _UrlError as error:
            problem = f"parse {quote_go(text[:_LONGEST])}: {error}"
    raise CelError(f"URL parse error during conversion from string: {problem}")


def parse_query(query: str) -> Map:
    """Return the values of a query by their names; pairs that cannot be read are left out."""
    found = Map()
    for pair in query.split("&"):
        if not pair or ";" in pair:
            continue
        name, _, value = pair.partition("=")
        try:
            name, value = _unescape(name, plus=True), _unescape(value, plus=True)
        except _UrlError:
            continue
        found.setdefault(name, []).append(value)
    return found
