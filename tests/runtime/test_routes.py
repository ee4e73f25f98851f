"""Routes of plugins."""

from __future__ import annotations

import pytest

from pyscheduler.framework import PluginError
from pyscheduler.runtime.routes import Routes


def test_a_route_is_answered_by_its_handler() -> None:
    """The handler gets the query and says what to show."""
    routes = Routes()
    routes.add("/gangs", dict, profile="a")
    assert routes.paths() == ["/gangs"]
    assert routes.answer("/gangs", {"name": "x"}) == {"name": "x"}


def test_profiles_may_answer_the_same_path() -> None:
    """The first to register answers, unless the query names another."""
    routes = Routes()
    for name in ("a", "b"):
        routes.add("/gangs", lambda _, name=name: name, profile=name)  # type: ignore[misc]  # binds the loop's value
    assert routes.answer("/gangs", {}) == "a"
    assert routes.answer("/gangs", {"profile": "b"}) == "b"


def test_a_segment_in_braces_stands_for_any_text() -> None:
    """The handler finds the text in its query; a path of another length, or with nothing there, is another path."""
    routes = Routes()
    routes.add("/gang/{namespace}/{name}", dict, profile="a")
    routes.add("/gang/special/one", lambda _: "special", profile="a")
    assert routes.answer("/gang/team/x", {"v": "1"}) == {"v": "1", "namespace": "team", "name": "x"}
    assert routes.answer("/gang/special/one", {}) == "special"
    for path in ("/gang/team", "/gang/team/", "/gang/team/x/y", "/other/team/x"):
        assert routes.find(path, {}) is None


@pytest.mark.parametrize(
    ("path", "query"),
    [pytest.param("/other", {}, id="a path"), pytest.param("/gangs", {"profile": "c"}, id="a profile")],
)
def test_what_nobody_answers_for_is_a_key_error(path: str, query: dict[str, str]) -> None:
    """The server turns it into a 404."""
    routes = Routes()
    routes.add("/gangs", dict, profile="a")
    with pytest.raises(KeyError):
        routes.answer(path, query)


@pytest.mark.parametrize(
    ("path", "message"),
    [pytest.param("/gangs", "answered already", id="twice"), pytest.param("gangs", "begin with a slash", id="no path")],
)
def test_impossible_routes_are_refused(path: str, message: str) -> None:
    """A profile answers a path once, and a path begins with a slash."""
    routes = Routes()
    routes.add("/gangs", dict, profile="a")
    with pytest.raises(PluginError, match=message):
        routes.add(path, dict, profile="a")
