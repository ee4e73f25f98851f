"""Record the changes that an API server reports, so that `pyscheduler_lab.audit` can check them."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final

from pyscheduler_lab.audit import Change, History
from pyscheduler_lab.audit.history import WATCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["ApiRecording"]

_TIMEOUT_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 0.2
_NOT_FOUND: Final = 404


class ApiRecording:
    """Records the writes of a server without authentication. Start it before the first object is created.

    `problems` says where the log has a gap; with a problem, a verdict on it proves nothing. `on_change` is called with
    each write, in the thread of its kind.
    """

    def __init__(
        self,
        server: str,
        paths: Sequence[str] = WATCHED,
        *,
        on_change: Callable[[Change], object] = lambda _: None,
    ) -> None:
        self.problems: list[str] = []
        self._server = server
        self._on_change = on_change
        self._changes: list[Change] = []
        self._stopping = threading.Event()
        self._begun = threading.Barrier(len(paths) + 1)
        self._threads = [
            threading.Thread(target=self._record, args=(path,), name=f"record {path}", daemon=True) for path in paths
        ]

    def start(self) -> None:
        """Start to record; block until every kind has been listed once."""
        for thread in self._threads:
            thread.start()
        self._begun.wait(_TIMEOUT_SECONDS)

    def stop(self) -> History:
        """Read what has been written until now, and return the log."""
        end = time.time()
        self._stopping.set()
        for thread in self._threads:
            thread.join(_TIMEOUT_SECONDS)
            if thread.is_alive():
                self.problems.append(f"{thread.name}: the server does not answer")
        return History.of(self._changes, end=end)

    def _record(self, path: str) -> None:
        version, is_begun = "", False
        while True:
            is_last = self._stopping.is_set()
            try:
                try:
                    version = version or self._list(path)
                finally:
                    if not is_begun:
                        is_begun = True
                        self._begun.wait(_TIMEOUT_SECONDS)
                for event in self._watch(path, version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._keep(event["type"], event["object"])
            except urllib.error.HTTPError as error:
                if error.code != _NOT_FOUND or version:
                    self.problems.append(f"record {path}: HTTP {error.code}")
                    return
                self._stopping.wait(_RETRY_SECONDS)
            except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
                if is_last:
                    self.problems.append(f"record {path}: the end is missing: {error!r}")
                self._stopping.wait(_RETRY_SECONDS)
            except ValueError as error:
                self.problems.append(f"record {path}: {error}")
                return
            if is_last:
                return

    def _list(self, path: str) -> str:
        """Keep all present objects; return the version of the list."""
        with urllib.request.urlopen(f"{self._server}{path}", timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            page = json.load(answer)
        kind = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
        for item in page["items"]:
            self._keep("ADDED", kind | item)
        return str(page["metadata"]["resourceVersion"])

    def _watch(self, path: str, version: str) -> Iterator[dict[str, Any]]:
        """Yield the events of one short watch."""
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=1"
        url = f"{self._server}{path}?{query}"
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - the demo's own server
            for line in answer:
                event: dict[str, Any] = json.loads(line)
                if event["type"] == "ERROR":
                    raise ValueError(event["object"].get("message", "the watch ended in an error"))
                yield event

    def _keep(self, kind: str, obj: dict[str, Any]) -> None:
        revision = int(obj["metadata"]["resourceVersion"])
        change = Change(at=time.time(), revision=revision, type=kind, obj=obj)
        self._changes.append(change)
        self._on_change(change)
