"""A step of a random test: a stored call that changes a `FakeCluster`, such as `add_node`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler.framework.errors import APIError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.testing.fake_cluster import FakeCluster

__all__ = ["Step", "code_of"]

_VERBS: Final = frozenset({"add", "add_node", "add_pod", "advance", "delete", "delete_node", "delete_pod", "patch"})


class Step:
    """One call of a `FakeCluster` (`add_node`, `add_pod`, `add`, `patch`, `delete` ...), or `advance` of its clock.

    `Step("add_node", "n1", allocatable={"cpu": "2"})` calls `cluster.add_node("n1", allocatable={"cpu": "2"})`.
    Raises `ValueError` for the name of any other method.
    """

    __slots__ = ("arguments", "keywords", "verb")

    def __init__(self, verb: str, /, *arguments: Any, **keywords: Any) -> None:
        if verb not in _VERBS:
            raise ValueError(f"no step {verb!r}; use one of {', '.join(sorted(_VERBS))}")
        self.verb = verb
        self.arguments = arguments
        self.keywords = keywords

    async def run(self, cluster: FakeCluster) -> None:
        """Change the cluster; a step about an object that is gone, or exists already, changes nothing."""
        if self.verb == "advance":
            await cluster.clock.advance(self.arguments[0])
            return
        try:
            getattr(cluster, self.verb)(*self.arguments, **self.keywords)
        except APIError as error:
            if error.status not in {404, 409}:
                raise

    def without(self, keyword: str) -> Step:
        """Return the step without one of its keywords."""
        return Step(self.verb, *self.arguments, **{key: each for key, each in self.keywords.items() if key != keyword})

    @property
    def text(self) -> str:
        """Return the step for readers: `add_node n1 allocatable={'cpu': '2'}`."""
        words = [self.verb, *(each if isinstance(each, str) else _literal(each) for each in self.arguments)]
        return " ".join([*words, *(f"{key}={_literal(each)}" for key, each in self.keywords.items())])

    @property
    def code(self) -> str:
        """Return the step as an expression of Python."""
        parts = [*map(_literal, (self.verb, *self.arguments))]
        return f"Step({', '.join([*parts, *(f'{key}={_literal(each)}' for key, each in self.keywords.items())])})"

    def types(self) -> Iterable[type]:
        """Return the classes that the step names."""
        return (each for each in self.arguments if isinstance(each, type))

    def __repr__(self) -> str:
        return self.code

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Step):
            return NotImplemented
        return (self.verb, self.arguments, self.keywords) == (other.verb, other.arguments, other.keywords)

    __hash__ = None  # type: ignore[assignment]  # the arguments are dicts


def code_of(history: Sequence[Step], *, imports: Iterable[type], name: str, call: str) -> str:
    """Return a test of that name which runs one history; `call` is the call of `check_plugin` with `history`."""
    classes = {*imports, *(type_ for step in history for type_ in step.types())}
    lines = [
        "from pyscheduler.testing import Step, check_plugin",
        *sorted(f"from {each.__module__} import {each.__qualname__.partition('.')[0]}" for each in classes),
        "",
        "",
        f"def test_{name.replace('-', '_')}() -> None:",
        "    history = [",
        *(f"        {step.code}," for step in history),
        "    ]",
        f"    {call}",
    ]
    return "\n".join(lines)


def _literal(value: object) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)
