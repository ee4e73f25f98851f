"""The fields of stories in JSON, which clients rely on."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.serving.state_page import NodeRow, State
from pyscheduler.stories.book import StoryBook
from pyscheduler.stories.view import PodStories, RunView, StorySummary, StoryUpdate, StoryView, story_view
from tests.stories.test_book import pod_of

_PAGE = Path(__file__).parents[2] / "docs/reference/debug-endpoints.md"


@pytest.mark.parametrize("type_", [PodStories, StoryView, RunView, StorySummary, StoryUpdate, State, NodeRow])
def test_every_field_is_in_the_reference(type_: type[msgspec.Struct]) -> None:
    """The page names each field as JSON has it."""
    named = {*re.findall(r"[`\"](\w+)[`\"]", _PAGE.read_text(encoding="utf-8"))}
    assert {field.encode_name for field in msgspec.structs.fields(type_)} <= named


def test_clients_decode_what_the_scheduler_encodes() -> None:
    """The structs are the form of both sides; a field that a later release adds is ignored."""
    clock = VirtualClock()
    book = StoryBook(clock)
    book.begin()
    book.waits(pod_of("p"), "Unschedulable", "no room", plugins=("A",), others=["web/q"])
    answer = PodStories(pod="web/p", is_leader=True, stories=[story_view(story) for story in book.of("web/p")])
    fields = {**msgspec.json.decode(msgspec.json.encode(answer)), "new": 1}
    assert msgspec.json.decode(msgspec.json.encode(fields), type=PodStories) == answer
