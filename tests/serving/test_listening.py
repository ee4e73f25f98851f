"""Opening ports: named ones have to be free, others may be taken."""

from __future__ import annotations

import errno
import logging
import socket
from typing import Any

import pytest

from pyscheduler.framework.errors import ConfigError
from pyscheduler.serving.listening import listen
from tests.processes import PATIENCE_SECONDS


@pytest.fixture
def taken() -> object:
    """Return a port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def test_named_port_in_use_is_an_error(taken: int) -> None:
    """One line with flag and address, and how to name another."""
    with pytest.raises(ConfigError) as raised:
        listen("127.0.0.1", taken, flag="--health-port", named=True)
    expected = f"--health-port {taken}: cannot listen on 127.0.0.1:{taken}: Address already in use; "
    assert str(raised.value) == f"{expected}set --health-port to another port, or to 0 for none"


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_default_port_in_use_is_skipped(taken: int, address: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, and passed over; so it is on all interfaces, where only one is taken."""
    with caplog.at_level(logging.WARNING):
        assert listen(address, taken, flag="--secure-port", named=False) is None
    (record,) = caplog.records
    assert record.getMessage() == f"Port is in use, running without it address={address}:{taken} flag=--secure-port"


def test_an_address_of_another_machine() -> None:
    """It is a mistake, named or not; the line names the flag."""
    with pytest.raises(ConfigError, match=r"^--bind-address 203\.0\.113\.7: Cannot assign requested address; name an"):
        listen("203.0.113.7", 0, flag="--secure-port", named=False)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_listening_on_each_address(address: str) -> None:
    """On the address, or on all; port 0 takes a free one."""
    opened = listen(address, 0, flag="--health-port", named=True)
    assert opened is not None
    with opened, socket.create_connection(("127.0.0.1", opened.getsockname()[1]), timeout=PATIENCE_SECONDS):
        assert opened.getsockname()[1] > 0


def test_a_shared_port() -> None:
    """With SO_REUSEPORT several listen on one port."""
    first = listen("127.0.0.1", 0, flag="--secure-port", named=True, share=True)
    assert first is not None
    with first:
        second = listen("127.0.0.1", first.getsockname()[1], flag="--secure-port", named=True, share=True)
        assert second is not None
        second.close()


@pytest.mark.parametrize("trouble", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
def test_where_there_is_no_ipv6(monkeypatch: pytest.MonkeyPatch, trouble: int) -> None:
    """All interfaces are those of IPv4 then, as in many containers."""
    create = socket.create_server

    def without(address: tuple[str, int], **keywords: Any) -> socket.socket:
        if keywords["family"] == socket.AF_INET6:
            raise OSError(trouble, "no IPv6")
        return create(address, **keywords)

    monkeypatch.setattr(socket, "create_server", without)
    opened = listen("::", 0, flag="--secure-port", named=True)
    assert opened is not None
    with opened:
        assert opened.family == socket.AF_INET
