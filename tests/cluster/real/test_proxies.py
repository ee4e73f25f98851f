"""The proxy for an API server, as environment variables set it."""

from __future__ import annotations

import pytest

from pyscheduler.cluster.real.proxies import environment_proxy

PROXY = "http://proxy:3128"
API = "https://10.96.0.1:443"


@pytest.mark.parametrize(
    ("server", "variables", "expected"),
    [
        pytest.param(API, {}, None, id="none"),
        pytest.param(API, {"HTTPS_PROXY": PROXY}, PROXY, id="set"),
        pytest.param(API, {"HTTPS_PROXY": " "}, None, id="blank"),
        pytest.param(API, {"HTTPS_PROXY": PROXY, "https_proxy": "http://other:1"}, PROXY, id="upper case first"),
        pytest.param(API, {"https_proxy": "proxy:3128"}, PROXY, id="without a scheme"),
        pytest.param(API, {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, None, id="for other schemes"),
        pytest.param("http://10.96.0.1:8080", {"HTTP_PROXY": PROXY}, PROXY, id="plain http"),
    ],
)
def test_which_variable_counts(server: str, variables: dict[str, str], expected: str | None) -> None:
    """That of the URL's scheme, in either case; a scheme is added where it lacks one."""
    assert environment_proxy(server, variables) == expected


@pytest.mark.parametrize("server", ["https://localhost:6443", "https://127.0.0.3:1", "https://[::1]:6443"])
def test_the_machine_itself_needs_no_proxy(server: str) -> None:
    """Loopback is always asked directly."""
    assert environment_proxy(server, {"HTTPS_PROXY": PROXY}) is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("server", "exceptions", "excepted"),
    [
        pytest.param(API, "*", True, id="all"),
        pytest.param(API, "10.96.0.1", True, id="address"),
        pytest.param(API, "10.96.0.2", False, id="other address"),
        pytest.param(API, "10.96.0.1:443", True, id="address and port"),
        pytest.param(API, "10.96.0.1:6443", False, id="other port"),
        pytest.param("https://10.96.0.1", "10.96.0.1:443", True, id="port of the scheme"),
        pytest.param(API, "example.com, 10.0.0.0/8,.svc", True, id="network"),
        pytest.param(API, "192.168.0.0/16", False, id="other network"),
        pytest.param(API, "10.96.0.1/8", True, id="network named by one of its addresses"),
        pytest.param(API, "10.0.0.0/99,/", False, id="no network at all"),
        pytest.param("https://[fd00::1]:443", "fd00::/8", True, id="network of version 6"),
        pytest.param("https://[fd00::1]:443", "fd00::1", True, id="address of version 6"),
        pytest.param("https://[fd00::1]:443", "[fd00::1]:443", True, id="address of version 6 and port"),
        pytest.param("https://[fd00::1]:443", "10.0.0.0/8", False, id="network of the other version"),
        pytest.param("https://api.k8s.example", "k8s.example", True, id="domain"),
        pytest.param("https://k8s.example", "K8S.example", True, id="the domain itself"),
        pytest.param("https://api.k8s.example.", ".k8s.example", True, id="beneath a domain"),
        pytest.param("https://k8s.example", ".k8s.example", False, id="not beneath itself"),
        pytest.param("https://api.k8s.example", "*.k8s.example", True, id="star"),
        pytest.param("https://apik8s.example", "k8s.example", False, id="same ending"),
        pytest.param("https://k8s.example:6443", "k8s.example:6443", True, id="domain and port"),
        pytest.param("https://k8s.example", "10.0.0.0/8", False, id="names are not looked up"),
        pytest.param(API, " ,, ", False, id="nothing"),
    ],
)
@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_no_proxy_entries(server: str, name: str, exceptions: str, *, excepted: bool) -> None:
    """Addresses, networks, domains and ports, as Go reads them."""
    proxy = environment_proxy(server, {"HTTPS_PROXY": PROXY, name: exceptions})
    assert proxy == (None if excepted else PROXY)
