"""The test server: a cluster in a thread of its own, over HTTP and HTTPS, that leaves nothing behind."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

import kube_testserver
from kube_objects.errors import APIError, ConfigError
from kube_testserver import TestServer
from kube_testserver.cluster import EmbeddedCluster

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"pods": "9"}}}
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {nodeName: n, containers: [{name: c, image: "i:1"}]}}
"""

pytestmark = pytest.mark.slow


def ask(server: TestServer, path: str, *, token: str = "", context: ssl.SSLContext | None = None) -> Any:
    """Return the decoded answer of the server to a GET."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(server.url + path, headers=headers), context=context) as answer:
        return json.load(answer)


def wait_for(server: TestServer, phase: str) -> None:
    """Return when a pod has this phase."""
    with urllib.request.urlopen(f"{server.url}/api/v1/pods?watch=1") as stream:
        for line in stream:
            if json.loads(line)["object"].get("status", {}).get("phase") == phase:
                return


def test_a_blocking_client_and_the_methods_see_the_same_objects() -> None:
    """A client sees objects that methods create, and methods see those of a client."""
    with TestServer() as server:
        (made,) = server.add(CONFIG_MAP)
        assert ask(server, "/api/v1/namespaces/default/configmaps/c") == made
        assert server.get("v1", "ConfigMap", "c", namespace="default") == made
        (loaded,) = server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}")
        assert server.objects("v1", "ConfigMap", namespace="default") == [made, loaded]
        server.remove("v1", "ConfigMap", "c", namespace="default")
        with pytest.raises(APIError, match="not found"):
            server.get("v1", "ConfigMap", "c", namespace="default")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(server, "/api/v1/namespaces/default/configmaps/c")


def test_functions_run_in_the_thread_of_the_server() -> None:
    """`run` passes the cluster, returns the result, raises the error, and may be called from within itself."""

    def name_of_thread(cluster: EmbeddedCluster) -> str:
        assert isinstance(cluster, EmbeddedCluster)
        return threading.current_thread().name

    with TestServer() as server:
        assert server.run(name_of_thread) == "kube-testserver"
        assert server.run(lambda _: server.run(name_of_thread)) == "kube-testserver"
        assert server.run(lambda cluster: len(cluster.nodes())) == 0
        with pytest.raises(ZeroDivisionError):
            server.run(lambda _: 1 // 0)
        with pytest.raises(APIError, match="already exists"):
            server.add(CONFIG_MAP, CONFIG_MAP)


def test_many_threads_may_use_one_server() -> None:
    """Calls from other threads are carried out one after the other, also while one of them stops the server."""
    with TestServer() as server, ThreadPoolExecutor(8) as pool:
        made = [pool.submit(server.add, {**CONFIG_MAP, "metadata": {"name": f"c-{number}"}}) for number in range(200)]
        for one in made:
            one.result()
        assert len(server.objects("v1", "ConfigMap")) == 200

        calls = [pool.submit(server.run, lambda cluster: len(cluster.nodes())) for _ in range(200)]
        server.stop()
        for call in calls:
            if call.exception() is None:
                assert call.result() == 0
            else:
                with pytest.raises(ConfigError, match="does not run"):
                    call.result()


def test_start_and_stop_are_idempotent() -> None:
    """A server starts once, and again after a stop; it is empty then, and has another kubeconfig."""
    server = TestServer()
    with pytest.raises(ConfigError, match=r"the test server does not run; call start\(\)"):
        server.objects("v1", "Node")
    server.stop()
    server.start()
    url, kubeconfig = server.url, server.kubeconfig
    server.start()
    assert (server.url, server.kubeconfig) == (url, kubeconfig)
    server.add(NODE)
    server.stop()
    server.stop()
    assert (server.url, server.kubeconfig, server.token) == ("", "", "")
    with server:
        assert server.objects("v1", "Node") == []
        assert server.kubeconfig != kubeconfig


def test_nothing_is_left_behind() -> None:
    """After the context there is no thread, no socket and no file."""
    threads, files = threading.enumerate(), open_files()
    with TestServer(tls=has_trustme()) as server:
        folder = Path(server.kubeconfig).parent
        assert folder.stat().st_mode & 0o77 == 0
        if not server.url.startswith("https"):
            ask(server, "/version")
    assert threading.enumerate() == threads
    assert not folder.exists()
    assert open_files() == files


def open_files() -> int:
    """Return how many files and sockets this process has open, where the system says it."""
    return len(list(Path("/proc/self/fd").glob("*")))


def has_trustme() -> bool:
    """Return True if servers with TLS can be started here."""
    try:
        import trustme  # noqa: F401
    except ImportError:
        return False
    return True


def test_open_watches_end_with_the_server() -> None:
    """A client that watches sees the end of its stream, and `stop` does not wait for the client."""
    with TestServer() as server:
        stream = urllib.request.urlopen(f"{server.url}/api/v1/nodes?watch=1")
        server.add(NODE)
        assert json.loads(stream.readline())["object"]["metadata"]["name"] == "n"
    with stream:
        assert stream.read() == b""


def test_two_servers_are_independent() -> None:
    """Each has its own objects, port and kubeconfig."""
    with TestServer() as first, TestServer() as second:
        first.add(NODE)
        assert second.objects("v1", "Node") == []
        assert ask(second, "/api/v1/nodes")["items"] == []
        assert first.url != second.url
        assert first.kubeconfig != second.kubeconfig


def test_errors_at_the_start_are_raised_by_start(tmp_path: Path) -> None:
    """A port that is taken, and manifests that are refused or absent; afterwards there is no thread."""
    threads = threading.enumerate()
    with TestServer() as server:
        port = int(server.url.rpartition(":")[2])
        second = TestServer(port=port)
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another address"):
            second.start()
        second.stop()
    with pytest.raises(ConfigError, match=r"load: .*no\.yaml cannot be read: No such file or directory; name a file"):
        TestServer(load=[tmp_path / "no.yaml"]).start()
    (tmp_path / "wrong.yaml").write_text("{apiVersion: v1, kind: Wrong, metadata: {name: w}}")
    with pytest.raises(ConfigError, match=r"load: .*wrong\.yaml was rejected: v1 Wrong is not served"):
        TestServer(load=[tmp_path]).start()
    with pytest.raises(APIError, match="holds str, not an object"):
        TestServer(load=["text"]).start()
    assert threading.enumerate() == threads


def test_manifests_are_loaded_at_the_start(tmp_path: Path) -> None:
    """Texts, files and folders; files of a folder in the order of their names, definitions before their objects."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "1.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: from-yaml}}")
    (folder / "2.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-json"}}')
    (folder / "README.md").write_text("no manifest")
    file = tmp_path / "file.yaml"
    file.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: from-file}}")
    text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-text}}"
    with TestServer(load=[text, folder, str(file)]) as server:
        names = [one["metadata"]["name"] for one in server.objects("v1", "ConfigMap")]
    assert names == ["from-file", "from-json", "from-text", "from-yaml"]
    with TestServer(load=text) as server:
        assert len(server.objects("v1", "ConfigMap")) == 1


def test_workloads_run_on_nodes() -> None:
    """A Deployment gets its pod, and the kubelet runs it, unless controllers or lifecycle are off."""
    with TestServer() as server:
        server.add(NODE)
        server.load(DEPLOYMENT)
        wait_for(server, "Running")
    with TestServer(lifecycle=False) as server:
        server.add(NODE)
        server.load(DEPLOYMENT)
        wait_for(server, "Pending")
    with TestServer(controllers=False) as server:
        server.load(DEPLOYMENT)
        assert not server.run(lambda cluster: cluster.registry.collects_garbage)
        assert server.objects("apps/v1", "ReplicaSet") == []


def test_rbac_gives_an_administrator_and_refuses_others() -> None:
    """The token of the server may do everything, a wrong one nothing, and the kubeconfig has it."""
    with TestServer(authorization="rbac") as server:
        assert ask(server, "/api/v1/nodes", token=server.token)["items"] == []
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(server, "/api/v1/nodes", token="wrong")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            ask(server, "/api/v1/nodes")
        config = yaml.safe_load(Path(server.kubeconfig).read_text())
        assert config["users"][0]["user"] == {"token": server.token}
        assert server.run(lambda cluster: cluster.rbac)
    with TestServer() as server:
        assert server.token == ""


def test_tls_has_its_authority_in_the_kubeconfig() -> None:
    """A client that trusts the authority of the kubeconfig, and no other, reaches the server."""
    pytest.importorskip("trustme")
    with TestServer(tls=True) as server:
        config = yaml.safe_load(Path(server.kubeconfig).read_text())["clusters"][0]["cluster"]
        assert config["server"] == server.url
        assert server.url.startswith("https://127.0.0.1:")
        authority = b64decode(config["certificate-authority-data"]).decode()
        assert ask(server, "/version", context=ssl.create_default_context(cadata=authority))["major"] == "1"
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(server, "/version")


def test_tls_without_trustme_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line names the extra."""
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(ConfigError) as error:
        TestServer(tls=True).start()
    assert str(error.value) == 'tls=True needs trustme; run: pip install "kube-testserver[tls]"'


def test_an_interrupted_start_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while `start` waits ends the server before or after it listens."""
    threads = threading.enumerate()
    server = TestServer()
    monkeypatch.setattr("concurrent.futures.Future.result", interrupt)
    with pytest.raises(KeyboardInterrupt):
        server.start()
    assert threading.enumerate() == threads
    assert server.url == ""


def interrupt(*_: object) -> None:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


# --- the package and its fixture -----------------------------------------------------------------


@pytest.fixture
def changed(kube_server: TestServer) -> TestServer:
    """Put an object into the server of the test."""
    kube_server.add(CONFIG_MAP)
    return kube_server


@pytest.mark.parametrize("count", [1, 2])
def test_each_test_has_a_fresh_server(changed: TestServer, count: int) -> None:
    """The fixture starts a server for each test, and other fixtures can build on it."""
    assert len(changed.objects("v1", "ConfigMap")) == 1
    assert Path(changed.kubeconfig).exists()


def test_the_package_imports_nothing_until_a_name_is_used() -> None:
    """`import kube_testserver` and its pytest plugin load no library; a public name loads the server."""
    script = """
import sys
import kube_testserver, kube_testserver.pytest_plugin
ours = {name for name in sys.modules if name.startswith(("kube_", "aiohttp", "msgspec", "asyncio"))}
assert ours == {"kube_testserver", "kube_testserver.pytest_plugin"}, ours
from kube_testserver import EmbeddedCluster, TestServer
assert not {"pyscheduler", "kubernetes", "trustme"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_unknown_names_of_the_package_are_errors() -> None:
    """A misspelt name raises AttributeError, as in any module."""
    assert kube_testserver.EmbeddedCluster is EmbeddedCluster
    with pytest.raises(AttributeError, match="module 'kube_testserver' has no attribute 'Nothing'"):
        _ = kube_testserver.Nothing
