"""A cluster of objects that were read once, for commands such as `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

from pyscheduler.api import KubeObject
from pyscheduler.cluster.real.local_copy import CopyLister
from pyscheduler.framework.errors import TransportError

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import Malformed, Pod, ResourceKind
    from pyscheduler.config.types import Extender
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ClientSettings, ExtenderConnection

__all__ = ["ReadOnlyCluster"]


def _refuse(what: str) -> NoReturn:
    raise TransportError(f"{what}: refused, because this cluster is read-only")


def _refusing(describe: Callable[..., str]) -> Any:
    """Return a coroutine method that raises `TransportError`; `describe` names the request by its arguments."""

    async def refuse(_self: object, *arguments: Any, **options: object) -> NoReturn:
        _refuse(describe(*arguments, **options))

    return refuse


def _refusing_object(verb: str) -> Any:
    """Return a coroutine method that raises `TransportError` and names the object of the request."""
    return _refusing(lambda kind, name, namespace="", **_: f"{verb} {kind.__name__} {namespace}/{name}")


class ReadOnlyCluster:
    """A `Transport` over objects that do not change.

    `read` returns the objects of a kind, in the order in which handlers are told of them; nothing where the cluster
    does not know the kind. It is called once for every kind that the profiles need. `extender` leads to the extenders;
    without it, none can be asked. `texts` are what objects were decoded from, by uid, as far as `read` keeps them.
    """

    def __init__(
        self,
        read: Callable[[ResourceKind], Awaitable[Iterable[KubeObject]]],
        *,
        extender: Callable[[Extender], ExtenderConnection] | None = None,
        texts: Mapping[str, bytes] | None = None,
    ) -> None:
        self._read = read
        self._texts = texts if texts is not None else {}
        self._extender = extender

    request = _refusing(lambda method, path, **_: f"{method} {path}")

    def stream(self, path: str, **_options: object) -> NoReturn:
        """Refuse: `TransportError`."""
        _refuse(f"watch {path}")

    def connect(
        self,
        settings: ClientSettings,  # noqa: ARG002
        *,
        clock: Clock,  # noqa: ARG002
        rng: random.Random,  # noqa: ARG002
        recorder: Recorder,
    ) -> _ReadOnlyClient:
        """Return the client path: informers that read once, and writes that are refused."""
        return _ReadOnlyClient(self._read, self._texts, recorder)

    def extender(self, config: Extender) -> ExtenderConnection:
        """Return the way to an extender; where there is none, questions are refused with `TransportError`."""
        return self._extender(config) if self._extender is not None else _NoExtender()

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class _NoExtender:
    """The connection to no extender: it refuses all requests."""

    post = _refusing(lambda url, _body: f"POST {url}")

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class _ReadOnlyInformer(CopyLister[KubeObject]):
    def __init__(
        self,
        kind: ResourceKind,
        read: Callable[[ResourceKind], Awaitable[Iterable[KubeObject]]],
        texts: Mapping[str, bytes],
        recorder: Recorder,
    ) -> None:
        super().__init__(kind.plural, recorder)
        self._kind = kind
        self._read = read
        self._texts = texts
        self.synced = False

    def start(self) -> None:
        """Do nothing: `wait_synced` reads."""

    async def wait_synced(self) -> None:
        """Read the objects and tell the handlers."""
        if not self.synced:
            found = list(await self._read(self._kind))
            if self._keep is not None:
                for one in found:
                    if one.uid in self._texts:
                        self._keep(one, self._texts[one.uid])
            self._copy.prime(found, watched=False)
            self.synced = True

    async def catch_up(self) -> None:
        """Do nothing: there are no news."""

    def add_unreadable_handler(self, callback: Callable[[Malformed, bool], None]) -> None:
        """Do nothing: `read` reports objects that cannot be decoded."""


class _ReadOnlyClient:
    """Reads from the listers' source, writes nothing."""

    def __init__(
        self,
        read: Callable[[ResourceKind], Awaitable[Iterable[KubeObject]]],
        texts: Mapping[str, bytes],
        recorder: Recorder,
    ) -> None:
        self._read = read
        self._texts = texts
        self._recorder = recorder

    def informer(self, kind: ResourceKind, *, field_selector: str = "", optional: bool = False) -> Any:  # noqa: ARG002
        """Return the informer of a kind; selecting is left to `read`."""
        return _ReadOnlyInformer(kind, self._read, self._texts, self._recorder)

    def event_recorder(self, reporting_controller: str) -> _Silent:  # noqa: ARG002
        return _Silent()

    @property
    def idle(self) -> bool:
        return True

    get = _refusing_object("get")
    list = _refusing(lambda kind, *_, **__: f"list {kind.__name__}")
    patch = _refusing_object("patch")
    create = _refusing(lambda kind, *_, **__: f"create {kind.__name__}")
    delete = _refusing_object("delete")
    bind = _refusing(lambda pod, node_name: f"bind {pod.key} to {node_name}")
    evict = _refusing(lambda pod, **_: f"evict {pod.key}")

    def pages(self, kind: type[Any], *_namespace: str, **_options: object) -> NoReturn:
        _refuse(f"list {kind.__name__}")

    async def patch_pod_status(self, pod: Pod, patch: Mapping[str, object]) -> None:
        """Drop the patch: a read-only cluster has no status to change."""

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class _Silent:
    """An event recorder for a cluster in which nothing happens."""

    def event(self, regarding: object, **fields: Any) -> None:
        """Drop the event."""


def objects_of(objects: Mapping[type[KubeObject], Sequence[KubeObject]]) -> Callable[[ResourceKind], Awaitable[Any]]:
    """Return a `read` over objects by type."""

    async def read(kind: ResourceKind) -> Iterable[KubeObject]:
        return cast("Iterable[KubeObject]", objects.get(kind.type, ()))

    return read
