"""The pytest fixture `kube_server`, registered by the `pytest11` entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.test_server import TestServer

__all__ = ["kube_server"]


@pytest.fixture
def kube_server() -> Iterator[TestServer]:
    """Give a running `TestServer`, fresh for each test; `kube_server.kubeconfig` is the path of its kubeconfig.

    A start takes 19 ms, and the end 5 ms (medians of 100 servers, on two shared cores); the first start imports the
    server, which takes another second.
    """
    from kube_testserver.test_server import TestServer

    with TestServer() as server:
        yield server
