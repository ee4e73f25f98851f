"""A test server for synchronous clients and for other processes: an embedded cluster in a thread of its own.

Other threads use the cluster over HTTP, or with `run`, which calls a function in the server's thread.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import threading
from concurrent.futures import Future
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from kube_objects.clock import LoopClock
from kube_objects.errors import ConfigError
from kube_testserver.access.users import ADMIN
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.kubeconfig import write_kubeconfig
from kube_testserver.served_cluster import load_file, make_tls, serve_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from kube_testserver.store import Object

__all__ = ["TestServer"]

_HOST = "127.0.0.1"
_SUFFIXES = (".json", ".yaml", ".yml")

T = TypeVar("T")


class TestServer:
    """A Kubernetes API server in memory, as a context manager; `kubeconfig` is the path of a file for its clients.

    With `tls` it serves HTTPS with a certificate of a new CA, which the kubeconfig contains. `authorization` ``rbac``
    requires credentials; the kubeconfig then has the `token` of an administrator. Go clients such as kubectl send
    tokens only over HTTPS.

    With `controllers` the workload controllers and the garbage collector run, with `lifecycle` the simulated kubelets.
    No scheduler runs: pods wait until they are bound to a node.

    `load` has manifests: texts, paths of files, and folders (as `Path`) of YAML and JSON files. `port` 0 takes a free
    port.

    A server can be started again after `stop`; it is empty then, except for what `load` has.
    """

    __test__ = False  # pytest takes a class called Test* for tests

    def __init__(
        self,
        *,
        tls: bool = False,
        authorization: Literal["always-allow", "rbac"] = "always-allow",
        controllers: bool = True,
        lifecycle: bool = True,
        load: Iterable[str | PathLike[str]] = (),
        port: int = 0,
    ) -> None:
        self._tls = tls
        self._authorization = authorization
        self._controllers = controllers
        self._lifecycle = lifecycle
        self._manifests = (load,) if isinstance(load, str | PathLike) else tuple(load)
        self._port = port
        #: Base URL of the running server.
        self.url = ""
        #: Path of the kubeconfig of the running server.
        self.kubeconfig = ""
        #: Bearer token of an administrator; empty where no credentials are needed.
        self.token = ""
        self._thread: threading.Thread | None = None
        self._starting = threading.RLock()
        self._posting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cluster: EmbeddedCluster | None = None
        self._is_wanted = False
        self._ended = asyncio.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return when the server answers requests; raise what keeps it from that. Does nothing if it runs already."""
        with self._starting:
            if self._thread is not None:
                return
            started = Future[None]()
            self._is_wanted = True
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._serve(started)), name="kube-testserver", daemon=True
            )
            self._thread.start()
            try:
                started.result()
            except BaseException:  # also Ctrl-C: a server whose start was interrupted is stopped
                self.stop()
                raise

    def stop(self) -> None:
        """End all connections, the thread, and the temporary folder; idempotent."""
        with self._starting:
            if self._thread is None:
                return
            with self._posting:
                self._is_wanted = False
                loop, self._loop, self._cluster = self._loop, None, None
            if loop is not None:
                loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()
            self._thread = None
            self.url = self.kubeconfig = self.token = ""

    # --- the cluster -----------------------------------------------------------------------------

    def run(self, function: Callable[[EmbeddedCluster], T]) -> T:
        """Call `function(cluster)` in the server's thread; return its result, or raise its error.

        All requests wait meanwhile. `ConfigError` if the server does not run.
        """
        done = Future[T]()
        is_here = threading.current_thread() is self._thread
        with self._posting:
            loop, cluster = self._loop, self._cluster
            if loop is None or cluster is None:
                raise ConfigError("the test server does not run; call start(), or use it in a `with` statement")
            if not is_here:
                loop.call_soon_threadsafe(_call, function, cluster, done)
        return function(cluster) if is_here else done.result()

    def add(self, *objects: Object) -> list[Object]:
        """Create objects, in order; return them as stored, as `EmbeddedCluster.add` does."""
        return self.run(lambda cluster: cluster.add(*objects))

    def load(self, text: str | bytes) -> list[Object]:
        """Create the objects of a YAML text, as `EmbeddedCluster.load` does."""
        return self.run(lambda cluster: cluster.load(text))

    def get(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> Object:
        """Return one object; `APIError` (404) when it is not there."""
        return self.run(lambda cluster: cluster.get(api_version, kind, name, namespace=namespace))

    def objects(self, api_version: str, kind: str, *, namespace: str = "") -> list[Object]:
        """Return all objects of a kind; of one namespace where it is given."""
        return self.run(lambda cluster: cluster.objects(api_version, kind, namespace=namespace))

    def remove(
        self, api_version: str, kind: str, name: str, *, namespace: str = "", grace_seconds: int | None = 0
    ) -> None:
        """Delete one object: at once, unless `grace_seconds` says otherwise (None: as the object itself asks)."""
        self.run(
            lambda cluster: cluster.remove(api_version, kind, name, namespace=namespace, grace_seconds=grace_seconds)
        )

    # --- in the server's thread ------------------------------------------------------------------

    async def _serve(self, started: Future[None]) -> None:
        try:
            await self._serve_until_stopped(started)
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve_until_stopped(self, started: Future[None]) -> None:
        context, authority = make_tls(_HOST, wanted_by="tls=True") if self._tls else (None, b"")
        token = secrets.token_urlsafe(32) if self._authorization == "rbac" else ""
        cluster = EmbeddedCluster(
            clock=LoopClock(), authorization=self._authorization, tokens={token: ADMIN} if token else None
        )
        for source in self._manifests:
            _load(cluster, source)
        served = serve_cluster(
            cluster,
            host=_HOST,
            port=self._port,
            tls=context,
            lifecycle=cluster.lifecycle() if self._lifecycle else None,
            controllers=self._controllers,
        )
        with tempfile.TemporaryDirectory(prefix="kube-testserver-") as folder:
            async with served as server:
                kubeconfig = Path(folder, "kubeconfig")
                write_kubeconfig(kubeconfig, server.url, token=token, authority=authority)
                self._ended = asyncio.Event()
                with self._posting:
                    if not self._is_wanted:  # Ctrl-C interrupted start()
                        return
                    self.url, self.kubeconfig, self.token = server.url, str(kubeconfig), token
                    self._loop, self._cluster = asyncio.get_running_loop(), cluster
                started.set_result(None)
                await self._ended.wait()


def _call(function: Callable[[EmbeddedCluster], T], cluster: EmbeddedCluster, done: Future[T]) -> None:
    try:
        done.set_result(function(cluster))
    except BaseException as error:  # noqa: BLE001 - the thread that waits in run() raises it
        done.set_exception(error)


def _load(cluster: EmbeddedCluster, source: str | PathLike[str]) -> None:
    """Create the objects of a text, of a file, or of all files in a folder, in the order of their names."""
    if isinstance(source, str) and ("\n" in source or not source.endswith(_SUFFIXES)):
        cluster.load(source)
        return
    path = Path(source)
    for file in sorted(one for one in path.iterdir() if one.suffix in _SUFFIXES) if path.is_dir() else [path]:
        load_file(cluster, file, source="load")
