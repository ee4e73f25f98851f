"""Answer requests for the pages under `/debug` that show why pods wait and in which state the scheduler is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import attrs
import msgspec
from aiohttp import web

from pyscheduler.framework.errors import APIError, TransportError
from pyscheduler.serving.api_status import api_status, quoted
from pyscheduler.serving.snapshot_archive import SnapshotArchive
from pyscheduler.serving.state_page import MOST_ITEMS, state_page
from pyscheduler.serving.update_stream import UpdateStream
from pyscheduler.stories.view import PodStories, story_view

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from pyscheduler.config.types import Configuration
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.stories.book import StoryBook
    from pyscheduler.stories.record import Story
    from pyscheduler.stories.view import StoryView

    #: Returns whether the reader may get the pods of a namespace.
    MayGetPods: TypeAlias = Callable[[str], Awaitable[bool]]

__all__ = ["InspectionPages", "pod_of_story"]

_STORY: Final = ["", "debug", "story"]
_STORY_SEGMENTS: Final = 5
#: The pause after a search, in multiples of its duration.
_PAUSE_FACTOR: Final = 4
_READING: Final = frozenset({"GET", "HEAD"})


def pod_of_story(request: web.BaseRequest) -> tuple[str, str] | None:
    """Return namespace and name of the pod whose story is requested; None for other requests."""
    segments = request.path.split("/")
    if request.method not in _READING or len(segments) != _STORY_SEGMENTS or segments[:3] != _STORY:
        return None
    namespace, name = segments[3:]
    return (namespace, name) if namespace and name else None


@attrs.define(kw_only=True)
class InspectionPages:
    """Answers authorized requests, until `close`."""

    scheduler: Scheduler
    book: StoryBook
    is_leader: Callable[[], bool]
    #: Returns the effective configuration.
    configuration: Callable[[], Configuration]
    _searching: asyncio.Lock = attrs.field(init=False, factory=asyncio.Lock)
    _archive: SnapshotArchive = attrs.field(init=False)
    _stream: UpdateStream = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._archive = SnapshotArchive(
            scheduler=self.scheduler, configuration=self.configuration, is_leader=self.is_leader
        )
        self._stream = UpdateStream(self.book, self.is_leader)

    async def answer(self, request: web.BaseRequest, may_get_pods: MayGetPods) -> web.StreamResponse | None:
        """Return the answer to a request, or None for other paths."""
        pod = pod_of_story(request)
        if pod is not None:
            return await self._story(*pod, may_get_pods)
        if request.path == "/debug/state" and request.method in _READING:
            return self._state(request)
        if request.path == "/debug/stream" and request.method == "GET":
            return await self._stream.answer(request)
        if request.path == "/debug/snapshot" and request.method == "GET":
            return await self._archive.answer(request)
        return None

    def close(self) -> None:
        """End answers that have no end of their own."""
        self._stream.close()

    def _state(self, request: web.BaseRequest) -> web.Response:
        text = request.query.get("limit", "0")
        if not (text.isascii() and text.isdigit()):
            return api_status(request, 400, "BadRequest", f"limit: {quoted(text)} is no number; give 1 to {MOST_ITEMS}")
        limit = min(int(text[:9]) or MOST_ITEMS, MOST_ITEMS)
        try:
            state = state_page(
                self.scheduler,
                self.book,
                is_leader=self.is_leader(),
                limit=limit,
                after=request.query.get("continue", ""),
            )
        except ValueError as error:
            return api_status(request, 400, "BadRequest", f"continue: {error}; begin without it")
        return _json(state)

    async def _story(self, namespace: str, name: str, may_get_pods: MayGetPods) -> web.StreamResponse:
        key = f"{namespace}/{name}"
        stories = [story_view(story) for story in await self._found(key)]
        await _hide(stories, namespace, may_get_pods)
        profiles = tuple(name for name, each in self.scheduler.profiles.items() if each.schedules)
        return _json(PodStories(pod=key, is_leader=self.is_leader(), stories=stories, profiles=profiles))

    async def _found(self, key: str) -> list[Story]:
        """Search for the stories of a pod.

        A search reads all finished stories, and tenants may ask as often as they like. So there is one search at a
        time, and a pause after it, which keep searches below a fifth of a core.
        """
        now = self.scheduler.clock.now
        async with self._searching:
            began = now()
            stories = self.book.of(key)
            await asyncio.sleep(_PAUSE_FACTOR * (now() - began))
        return stories


async def _hide(stories: list[StoryView], namespace: str, may_get_pods: MayGetPods) -> None:
    """Leave out the keys of pods in other namespaces that the reader may not see, and count them."""
    allowed = {namespace: True}
    for run in (run for story in stories for run in story.runs if run.others):
        seen = []
        for other in run.others:
            place, slash, _ = other.partition("/")
            if slash and place not in allowed:
                try:
                    allowed[place] = await may_get_pods(place)
                except (APIError, TransportError):
                    allowed[place] = False
            if not slash or allowed[place]:
                seen.append(other)
        run.others_hidden = len(run.others) - len(seen)
        run.others = tuple(seen)


def _json(answer: msgspec.Struct) -> web.Response:
    body = msgspec.json.encode(answer)
    return web.Response(body=body, content_type="application/json", headers={"X-Content-Type-Options": "nosniff"})
