"""Credentials from kubeconfig files: every kind works, every mistake is one line that says what to mend."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.aio.config import kube_config

from kube_objects.times import format_time
from kube_testserver.virtual_time import VirtualClock
from pyscheduler.cluster.real import auth
from pyscheduler.framework.errors import ConfigError
from tests import processes

SERVER = "https://10.0.0.1:6443"
PKI = Path(__file__).parent / "pki"
AUTHORITY = str(PKI / "authority.crt")


def document(user: dict[str, Any] | None = None, **cluster: Any) -> dict[str, Any]:
    """Return a kubeconfig with one cluster, user and context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "here", "cluster": {"server": SERVER, **cluster}}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": "main", "context": {"cluster": "here", "user": "me"}}],
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write a kubeconfig and return its path."""

    def to(content: dict[str, Any] | str | bytes, name: str = "config") -> str:
        path = tmp_path / name
        if isinstance(content, dict):
            content = yaml.safe_dump(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return to


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let nothing of the machine's own setup shine through."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


async def test_token(write: Any) -> None:
    """A token becomes the Authorization header; the server's URL loses its slash."""
    credentials = await auth.load(kubeconfig=write(document({"token": "abc"}, server=SERVER + "/")))
    assert credentials.server == SERVER
    assert await credentials.authorization() == "Bearer abc"
    assert credentials.server_hostname is None
    assert credentials.proxy is None


async def test_token_file_is_read_again(write: Any, tmp_path: Path) -> None:
    """A token that is rotated in its file is in use within a minute; a file that is gone for a while does no harm."""
    clock = VirtualClock()
    token = tmp_path / "token"
    token.write_text("first\n")
    credentials = await auth.load(kubeconfig=write(document({"tokenFile": "token"})), clock=clock)
    assert await credentials.authorization() == "Bearer first"
    token.write_text("second\n")
    assert await credentials.authorization() == "Bearer first"
    await clock.advance(61)
    assert await credentials.authorization() == "Bearer second"
    token.unlink()
    await clock.advance(61)
    assert await credentials.authorization() == "Bearer second"
    token.write_text("third")
    await clock.advance(61)
    assert await credentials.authorization() == "Bearer third"


async def test_rotated_token_is_read_at_once_after_a_refusal(write: Any, tmp_path: Path) -> None:
    """A 401 does not wait for the minute to be over."""
    clock = VirtualClock()
    token = tmp_path / "token"
    token.write_text("first")
    credentials = await auth.load(kubeconfig=write(document({"tokenFile": "token"})), clock=clock)
    token.write_text("second")
    assert await credentials.renew("Bearer first")
    assert await credentials.authorization() == "Bearer second"
    assert await credentials.renew("Bearer first"), "somebody else's refusal: there is a new one already"
    assert not await credentials.renew("Bearer second"), "nothing new so soon"


async def test_password(write: Any) -> None:
    """A name and a password become basic authentication."""
    credentials = await auth.load(kubeconfig=write(document({"username": "me", "password": "s3cret"})))
    expected = base64.b64encode(b"me:s3cret").decode()
    assert await credentials.authorization() == f"Basic {expected}"


async def test_nobody_in_particular(write: Any) -> None:
    """A user without credentials is anonymous."""
    credentials = await auth.load(kubeconfig=write(document()))
    assert await credentials.authorization() is None
    assert not await credentials.renew(None)


async def test_context_server_name_and_proxy(write: Any) -> None:
    """Another context may be chosen; tls-server-name, proxy-url and disable-compression are taken over."""
    config = document({"token": "abc"})
    config["clusters"].append(
        {
            "name": "there",
            "cluster": {
                "server": SERVER,
                "tls-server-name": "kubernetes",
                "proxy-url": "http://proxy:3128",
                "disable-compression": True,
            },
        }
    )
    config["contexts"].append({"name": "other", "context": {"cluster": "there", "user": "me"}})
    credentials = await auth.load(kubeconfig=write(config), context="other")
    assert credentials.server_hostname == "kubernetes"
    assert credentials.proxy == "http://proxy:3128"
    assert not credentials.compressed
    assert (await auth.load(kubeconfig=write(config))).compressed


async def test_master_overrides_the_server(write: Any) -> None:
    """The flag wins over the file; the credentials stay."""
    credentials = await auth.load(kubeconfig=write(document({"token": "abc"})), master="https://other:6443/")
    assert credentials.server == "https://other:6443"
    assert await credentials.authorization() == "Bearer abc"


async def test_environment_names_several_files(write: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files are merged, the first that names a context decides, and some may be missing."""
    one = document({"token": "one"})
    del one["current-context"]
    two = document({"token": "two"})
    two["contexts"][0]["name"] = "second"
    two["current-context"] = "second"
    paths = [str(tmp_path / "missing"), write(one, "one"), write(two, "two")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
    credentials = await auth.load()
    assert await credentials.authorization() == "Bearer one", "of two users with one name the first counts"


async def test_home_is_the_last_resort(tmp_path: Path) -> None:
    """Without a flag, an environment or a service account it is ~/.kube/config."""
    home = tmp_path / "home" / ".kube"
    with pytest.raises(ConfigError, match=r"kubeconfig .*/home/\.kube/config does not exist"):
        await auth.load()
    home.mkdir(parents=True)
    (home / "config").write_text(yaml.safe_dump(document({"token": "abc"})))
    assert await (await auth.load()).authorization() == "Bearer abc"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128", id="set"),
        pytest.param({"HTTPS_PROXY": "proxy:3128"}, "http://proxy:3128", id="set-without-a-scheme"),
        pytest.param({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.1"}, None, id="excepted"),
        pytest.param({"HTTP_PROXY": "http://proxy:3128"}, None, id="for-http-only"),
    ],
)
async def test_proxy_of_the_environment(
    write: Any, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str | None
) -> None:
    """Where the kubeconfig names no proxy, the environment's is used, as kubectl does."""
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = write(document({"token": "abc"}))
    assert (await auth.load(kubeconfig=config)).proxy == expected
    assert auth.plain("https://10.0.0.1:6443").proxy == expected
    assert (await auth.load(kubeconfig=config, master="https://127.0.0.1:6443")).proxy is None


def without(*path: object) -> dict[str, Any]:
    """Return a kubeconfig that lacks one thing."""
    config: Any = document({"token": "abc"})
    at = config
    for step in path[:-1]:
        at = at[step]
    del at[path[-1]]
    return config


def with_text(**fields: str) -> dict[str, Any]:
    """Return a kubeconfig with other top-level fields."""
    return {**document({"token": "abc"}), **fields}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", "is no kubeconfig", id="empty"),
        pytest.param("just text", "is no kubeconfig", id="text"),
        pytest.param("- a\n- b\n", "is no kubeconfig", id="list"),
        pytest.param("a: b: c\n", "is not YAML at line 1: mapping values", id="not-yaml"),
        pytest.param(b"a: \xff\xfe\x00", "is not YAML", id="bytes"),
        pytest.param(b"\x00\x01", "is not YAML", id="binary"),
        pytest.param(without("current-context"), "names no current-context", id="no-current-context"),
        pytest.param(with_text(**{"current-context": ""}), "names no current-context", id="empty-current-context"),
        pytest.param(with_text(**{"current-context": "x"}), "has no context 'x'", id="unknown-context"),
        pytest.param(without("contexts"), "has no context 'main'", id="no-contexts"),
        pytest.param(with_text(contexts="all"), "contexts is not a list", id="contexts-text"),
        pytest.param(without("contexts", 0, "context", "cluster"), "names no cluster", id="no-cluster"),
        pytest.param(without("contexts", 0, "context", "user"), "names no user", id="no-user"),
        pytest.param(without("clusters"), "has no cluster 'here'", id="unknown-cluster"),
        pytest.param(without("users"), "has no user 'me'", id="unknown-user"),
        pytest.param(without("clusters", 0, "cluster", "server"), "cluster 'here' has no server", id="no-server"),
        pytest.param(document(server="10.0.0.1:6443/api"), "server must be a URL like", id="no-scheme"),
        pytest.param(document(server="https://[::1"), "server must be a URL like", id="bad-url"),
        pytest.param(document({"tokenFile": "none"}), "cannot be used: .*none", id="no-token-file"),
        pytest.param(document({"token": "two\nlines"}), "characters that no token has", id="token-with-newline"),
        pytest.param(document(**{"certificate-authority": "no.crt"}), r"cannot be used: .*no\.crt", id="no-ca-file"),
        pytest.param(document(**{"certificate-authority-data": "!"}), "cannot be used", id="ca-not-base64"),
        pytest.param(
            document(**{"certificate-authority-data": base64.b64encode(b"no certificate").decode()}),
            "the certificate-authority cannot be used",
            id="ca-no-certificate",
        ),
        pytest.param(
            document({"client-certificate-data": "bm8=", "client-key-data": "bm8="}),
            "the client certificate and its key cannot be used",
            id="client-no-certificate",
        ),
        pytest.param(
            document({"client-certificate": "no.crt", "client-key": "no.key"}),
            r"cannot be used: .*no\.crt",
            id="no-client-certificate",
        ),
        pytest.param(
            document({"client-certificate": str(PKI / "client.crt"), "client-key": "no.key"}),
            r"cannot be used: .*no\.key",
            id="no-client-key",
        ),
        pytest.param(
            document({"client-certificate": str(PKI / "client.crt"), "client-key": str(PKI / "server.key")}),
            "the client certificate and its key cannot be used: the key is not that of the certificate",
            id="another-key",
        ),
        pytest.param(
            document({"token": "abc", "as": "kim", "as-groups": ["a"]}),
            "user 'me' impersonates another user .* is not supported",
            id="impersonation",
        ),
        pytest.param(document(**{"proxy-url": "socks5://x:1"}), "proxy-url must be a URL", id="proxy"),
        pytest.param(
            document({"exec": {"apiVersion": "v1", "command": "/no/such/plugin"}}),
            "the exec plugin failed: .*/no/such/plugin",
            id="exec-missing",
        ),
    ],
)
async def test_mistakes(write: Any, content: Any, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever is wrong with a kubeconfig, it is one line that names the file, and nothing else is printed."""
    path = write(content)
    with pytest.raises(ConfigError, match=message) as caught:
        await auth.load(kubeconfig=path)
    assert "\n" not in str(caught.value)
    assert path in str(caught.value)
    assert capfd.readouterr() == ("", "")


async def test_file_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file and a directory are told apart."""
    with pytest.raises(ConfigError, match=r"missing does not exist; name one with --kubeconfig or \$KUBECONFIG"):
        await auth.load(kubeconfig=str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        await auth.load(kubeconfig=str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")]))
    with pytest.raises(ConfigError, match="none of these kubeconfigs exists"):
        await auth.load()


async def test_a_path_with_a_colon_is_one_file(write: Any, tmp_path: Path) -> None:
    """Only `$KUBECONFIG` is a list; files that the entries name lie beside it all the same."""
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "token").write_text("abc")
    path = write(document({"tokenFile": "token"}), "a:b/config")
    credentials = await auth.load(kubeconfig=path)
    assert await credentials.authorization() == "Bearer abc"
    with pytest.raises(ConfigError, match="a:b/missing does not exist"):
        await auth.load(kubeconfig=str(folder / "missing"))


@pytest.mark.parametrize(
    ("server", "cluster", "url"),
    [
        pytest.param("10.0.0.1:6443", {}, "http://10.0.0.1:6443", id="nothing-says-tls"),
        pytest.param("localhost:8080/", {}, "http://localhost:8080", id="a-name-that-looks-like-a-scheme"),
        pytest.param("[::1]:6443", {"certificate-authority": AUTHORITY}, "https://[::1]:6443", id="authority"),
        pytest.param("api", {"insecure-skip-tls-verify": True}, "https://api", id="unchecked"),
    ],
)
async def test_a_server_may_be_given_as_host_and_port(
    write: Any, server: str, cluster: dict[str, Any], url: str
) -> None:
    """As kubectl and kube-scheduler take it: over TLS where something in the kubeconfig is about TLS."""
    credentials = await auth.load(kubeconfig=write(document(server=server, **cluster)))
    assert credentials.server == url
    trusted = credentials.ssl_context.get_ca_certs() if credentials.ssl_context is not None else []
    assert len(trusted) == ("certificate-authority" in cluster), "the authority that is named, and no other"
    assert (await auth.load(kubeconfig=write(document(**cluster)), master=server)).server == url
    assert auth.plain(server).server == url.replace("https:", "http:")


@pytest.mark.parametrize("server", ["localhost:8080/api", "", "ftp://x", "http://", "http://x:port", "//x"])
def test_plain_server_must_be_a_url(server: str) -> None:
    """What `--master` takes is checked before anybody connects to it."""
    with pytest.raises(ConfigError, match="must be a URL like"):
        auth.plain(server)


PLUGIN = """
import json, pathlib, sys
script = pathlib.Path(sys.argv[1])
runs = script.with_suffix(".runs")
count = int(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text(str(count))
mode = script.read_text()
if mode == "fail":
    sys.exit("please log in first")
if mode == "garbage":
    print("hello")
    sys.exit()
status = {"token": f"t{count}"} if mode != "empty" else {}
if mode.startswith("2"):
    status["expirationTimestamp"] = mode
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


class Plugin:
    """An exec plugin that counts its runs; what it answers stands in a file."""

    def __init__(self, folder: Path) -> None:
        self.mode = folder / "mode"
        self.code = folder / "plugin.py"
        self.code.write_text(PLUGIN)

    def user(self) -> dict[str, Any]:
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": [str(self.code), str(self.mode)],
                "env": [{"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
            }
        }

    @property
    def runs(self) -> int:
        return int(self.mode.with_suffix(".runs").read_text())


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    """Make an exec plugin."""
    return Plugin(tmp_path)


@pytest.mark.slow
async def test_exec_plugin_without_expiry_runs_once_until_refused(write: Any, plugin: Plugin) -> None:
    """A token without an end is good until the API server says otherwise."""
    clock = VirtualClock()
    plugin.mode.write_text("forever")
    credentials = await auth.load(kubeconfig=write(document(plugin.user())), clock=clock)
    await clock.advance(100_000)
    assert await credentials.authorization() == "Bearer t1"
    assert await credentials.renew("Bearer t1")
    assert await credentials.authorization() == "Bearer t2"
    assert plugin.runs == 2


@pytest.mark.slow
async def test_exec_plugin_is_run_before_its_token_ends(write: Any, plugin: Plugin) -> None:
    """An hour's token is renewed five minutes early, not before; a failing renewal keeps the old one and is retried."""
    clock = VirtualClock(epoch=4_000_000_000.0)  # the official client compares with the real time: all this is later
    plugin.mode.write_text("2096-10-02T08:06:40Z")  # an hour after that epoch
    credentials = await auth.load(kubeconfig=write(document(plugin.user())), clock=clock)
    await clock.advance(3290)
    assert await credentials.authorization() == "Bearer t1"
    source: Any = credentials._source
    source._loader.exec_plugin_expiry = datetime(2000, 1, 1, tzinfo=UTC)  # as the official client will see it by then
    plugin.mode.write_text("fail")
    await clock.advance(20)
    assert await credentials.authorization() == "Bearer t1"
    assert plugin.runs == 2
    assert await credentials.authorization() == "Bearer t1"
    assert plugin.runs == 2, "not at every request"
    plugin.mode.write_text("forever")
    await clock.advance(61)
    assert await credentials.authorization() == "Bearer t3"


@pytest.mark.slow
async def test_short_lived_token_is_not_renewed_at_every_request(write: Any, plugin: Plugin) -> None:
    """A token that lives for two minutes is within the official client's margin all its life."""
    now = time.time()  # the official client's clock cannot be set
    clock = VirtualClock(epoch=now)
    plugin.mode.write_text(format_time(now + 120))
    credentials = await auth.load(kubeconfig=write(document(plugin.user())), clock=clock)
    await clock.advance(50)
    assert await credentials.authorization() == "Bearer t1"
    assert plugin.runs == 1
    await clock.advance(10)
    assert await credentials.authorization() == "Bearer t2"


async def test_token_that_is_refused_before_its_end(write: Any, plugin: Plugin) -> None:
    """Revoked, a token is replaced although its time is not up."""
    clock = VirtualClock(epoch=4_000_000_000.0)
    plugin.mode.write_text("2096-10-02T08:06:40Z")
    credentials = await auth.load(kubeconfig=write(document(plugin.user())), clock=clock)
    await clock.advance(60)
    assert await credentials.renew("Bearer t1")
    assert await credentials.authorization() == "Bearer t2"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("mode", "message"),
    [
        pytest.param("fail", "the exec plugin failed: exec: process returned 1. please log in first$", id="exit-code"),
        pytest.param("garbage", "the exec plugin failed: .*decode", id="no-json"),
        pytest.param("empty", "the exec plugin failed: .*missing token", id="no-token"),
    ],
)
async def test_exec_plugin_that_fails(write: Any, plugin: Plugin, mode: str, message: str) -> None:
    """The official client only logs it; here it ends the start in one line."""
    plugin.mode.write_text(mode)
    with pytest.raises(ConfigError, match=message) as caught:
        await auth.load(kubeconfig=write(document(plugin.user())))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
async def test_exec_plugin_beside_its_kubeconfig(write: Any, plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is meant relative to the file that names it, a bare name is looked for in PATH, as kubectl does."""
    plugin.mode.write_text("forever")
    script = plugin.mode.parent / "bin" / "login"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\nexec {sys.executable} {plugin.code} {plugin.mode}\n")
    script.chmod(0o755)
    monkeypatch.chdir("/")
    relative, bare = plugin.user(), plugin.user()
    relative["exec"]["command"] = "./bin/login"
    assert await (await auth.load(kubeconfig=write(document(relative)))).authorization() == "Bearer t1"
    bare["exec"]["command"] = "login"
    monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
    assert await (await auth.load(kubeconfig=write(document(bare)))).authorization() == "Bearer t2"


@pytest.mark.slow
async def test_exec_plugin_that_is_slower_than_a_request(
    write: Any, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cannot wait gives up alone: the plugin ends its work, and is not begun anew by each request of a lease."""
    clock = VirtualClock()
    plugin.mode.write_text("forever")
    credentials = await auth.load(kubeconfig=write(document(plugin.user())), clock=clock)
    runs = 0
    answer = asyncio.Event()

    async def slow(loader: Any) -> bool:
        nonlocal runs
        runs += 1
        await answer.wait()
        loader.token = "Bearer slow"
        return True

    monkeypatch.setattr(kube_config.KubeConfigLoader, "load_from_exec_plugin", slow)
    for _ in range(3):
        asking = asyncio.create_task(credentials.renew("Bearer t1"))
        await asyncio.wait([asking], timeout=0.02)
        asking.cancel()
        await asyncio.wait([asking])
    answer.set()
    assert await credentials.renew("Bearer t1")
    assert (await credentials.authorization(), runs) == ("Bearer slow", 1)


async def test_exec_plugin_is_not_waited_for_at_the_end(
    write: Any, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever closes the credentials has no use for others; who still waits for some is not cancelled by that."""
    plugin.mode.write_text("forever")
    credentials = await auth.load(kubeconfig=write(document(plugin.user())), clock=VirtualClock())
    began = asyncio.Event()

    async def hang(loader: object) -> None:
        began.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(kube_config.KubeConfigLoader, "load_from_exec_plugin", hang)
    asking = asyncio.create_task(credentials.renew("Bearer t1"))
    await began.wait()
    await credentials.close()
    await asking
    assert await credentials.authorization() is None


async def test_exec_plugin_that_hangs(write: Any, plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute is enough for any plugin, also one that asks a person."""
    hangs = asyncio.Event()

    async def hang(loader: object) -> None:
        hangs.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(kube_config.KubeConfigLoader, "load_from_exec_plugin", hang)
    clock = VirtualClock()
    loading = asyncio.create_task(auth.load(kubeconfig=write(document(plugin.user())), clock=clock))
    await hangs.wait()  # files are looked at in a thread, in real time
    await clock.advance(61)
    with pytest.raises(ConfigError, match="the exec plugin did not answer in 60 s"):
        await loading


@pytest.mark.slow
def test_only_the_credentials_part_of_the_official_client_is_imported(write: Callable[..., str]) -> None:
    """A scheduler carries neither API client of the package, and a plugin can still import all of it."""
    code = (
        "import asyncio, sys\n"
        "from pyscheduler.cluster.real import auth\n"
        "from kube_testserver.virtual_time import VirtualClock\n"
        "loaded = asyncio.run(auth.load(kubeconfig=sys.argv[1], clock=VirtualClock()))\n"
        "assert loaded.server == 'https://10.0.0.1:6443', loaded.server\n"
        "extra = {'kubernetes', 'kubernetes.client', 'requests', 'urllib3'} & set(sys.modules)\n"
        "assert not extra, extra\n"
        "import kubernetes.aio.client as theirs\n"
        "import kubernetes.aio.config\n"
        "assert kubernetes.client.CoreV1Api and theirs.Configuration and kubernetes.aio.config.load_config\n"
    )
    path = write(document({"token": "abc"}))
    processes.run(sys.executable, "-c", code, path, check=True)
