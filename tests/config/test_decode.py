"""Values become typed objects without coercion, and every mistake is told with its path."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NewType

import attrs
import pytest

from pyscheduler.api import NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from pyscheduler.config.decode import Mistakes, decode, decode_args
from pyscheduler.framework.in_tree_args import NodeAffinityArgs
from pyscheduler.framework.plugin_args import Duration, Float32, Int32, Quantity, wire

Queue = NewType("Queue", str)


OTHER_KIND = (
    "args for plugin NodeAffinity were not of type NodeAffinityArgs.kubescheduler.config.k8s.io, "
    "got InterPodAffinityArgs.kubescheduler.config.k8s.io @ $.kind"
)


class Color(enum.Enum):
    RED = "red"


class Hours(enum.StrEnum):
    OPEN = "Open"
    CLOSED = "Closed"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Zone(str):
    """Text with a class of its own."""

    __slots__ = ()


@attrs.frozen(kw_only=True)
class Inner:
    depth: int = attrs.field(default=1, validator=attrs.validators.ge(0))


@attrs.frozen(kw_only=True)
class Everything:
    """One attribute of each kind that args may have."""

    text: str = "t"
    number: int = 1
    small: Int32 = 1
    share: float = 1.0
    single: Float32 = 1.0
    flag: bool = False
    data: bytes = b""
    permit_wait_seconds: Duration = 60.0
    limit_seconds: Duration | None = None
    plain_seconds: int = 5
    room: Quantity = Quantity("1Gi")  # noqa: RUF009 - immutable
    rooms: Mapping[str, Quantity] = attrs.Factory(dict)
    maybe: int | None = None
    either: int | str = 0
    color: Color = Color.RED
    hours: Hours = Hours.OPEN
    several: tuple[Hours, ...] = ()
    level: Level = Level.LOW
    mode: Literal["on", "off"] = "on"
    queue: Queue = Queue("q")
    names: tuple[str, ...] = ()
    numbers: list[int] = attrs.Factory(list)
    shares: tuple[float, ...] = ()
    parts: tuple[bytes, ...] = ()
    lists: tuple[tuple[int, ...], ...] = ()
    maps: tuple[dict[str, bool], ...] = ()
    optional: tuple[int | None, ...] = ()
    sequence: Sequence[int] = ()
    unique: frozenset[str] = frozenset()
    pair: tuple[int, str] = (0, "")
    weights: Mapping[str, int] = attrs.Factory(dict)
    anything: Any = None
    untyped: Mapping = attrs.Factory(dict)  # type: ignore[type-arg]  # the point of it
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    affinity: NodeAffinity | None = None
    _private: int = 0
    renamed: str = attrs.field(default="", metadata=wire(key="URL"))
    defaulted: int = attrs.field(default=7, metadata=wire(zero_is_unset=True))
    computed: int = attrs.field(init=False, default=0)


@attrs.frozen(kw_only=True)
class Needy:
    needed: int
    inner: Inner


@attrs.define
class Tree:
    """Contains its own kind."""

    children: list[Tree] = attrs.Factory(list)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("value", "changes"),
    [
        pytest.param(value, changes, id="/".join(value) if len(value) == 1 else "several")
        for value, changes in [
            ({"text": "1", "number": -3}, {"text": "1", "number": -3}),
            ({"number": 3.0}, {"number": 3}),
            ({"number": 2**63 - 1}, {"number": 2**63 - 1}),
            ({"small": -(2**31)}, {"small": -(2**31)}),
            ({"share": 2}, {"share": 2.0}),
            ({"flag": True}, {"flag": True}),
            ({"single": 16777217}, {"single": 16777216.0}),
            ({"single": 0.1}, {"single": 0.1}),
            ({"single": 1e-50}, {"single": 0.0}),
            ({"single": 3.4028235e38}, {"single": 3.4028235e38}),
            ({"data": "aGk="}, {"data": b"hi"}),
            ({"data": "aG\r\nk=\n"}, {"data": b"hi"}),
            ({"permitWait": "1m30s"}, {"permit_wait_seconds": 90.0}),
            ({"limit": "0s"}, {"limit_seconds": 0.0}),
            ({"plainSeconds": 9}, {"plain_seconds": 9}),
            ({"room": "1.5Gi"}, {"room": Quantity("1.5Gi")}),
            ({"room": 2}, {"room": Quantity("2")}),
            ({"rooms": {"cpu": "500m", "x/y": 0.5}}, {"rooms": {"cpu": Quantity("0.5"), "x/y": Quantity("500m")}}),
            ({"maybe": 4}, {"maybe": 4}),
            ({"either": "x"}, {"either": "x"}),
            ({"color": "red"}, {"color": Color.RED}),
            ({"hours": "Closed"}, {"hours": Hours.CLOSED}),
            ({"several": ["Closed", "Open"]}, {"several": (Hours.CLOSED, Hours.OPEN)}),
            ({"level": 2}, {"level": Level.HIGH}),
            ({"mode": "off"}, {"mode": "off"}),
            ({"queue": "other"}, {"queue": "other"}),
            ({"names": ["a", None]}, {"names": ("a", "")}),
            ({"numbers": [1, None]}, {"numbers": [1, 0]}),
            ({"shares": [1, None]}, {"shares": (1.0, 0.0)}),
            ({"parts": ["aGk=", None]}, {"parts": (b"hi", b"")}),
            ({"lists": [[1], None]}, {"lists": ((1,), ())}),
            ({"maps": [{"a": True}, None]}, {"maps": ({"a": True}, {})}),
            ({"optional": [1, None]}, {"optional": (1, None)}),
            ({"sequence": [1]}, {"sequence": (1,)}),
            ({"unique": ["a", "a"]}, {"unique": frozenset({"a"})}),
            ({"pair": [1, "x"]}, {"pair": (1, "x")}),
            ({"weights": {"a b": 1}}, {"weights": {"a b": 1}}),
            ({"anything": [1, {"a": None}]}, {"anything": [1, {"a": None}]}),
            ({"untyped": {"a": [1]}}, {"untyped": {"a": [1]}}),
            ({"inner": {"depth": 2}}, {"inner": Inner(depth=2)}),
            ({"inners": [{}, None]}, {"inners": (Inner(), Inner())}),
            ({"private": 3}, {"private": 3}),
            ({"URL": "u"}, {"renamed": "u"}),
            ({"defaulted": 0}, {"defaulted": 7}),
            ({"text": None, "inner": None, "names": None, "maybe": None}, {}),
        ]
    ],
)
def test_values_are_accepted(value: dict[str, object], changes: dict[str, object]) -> None:
    """Every kind of attribute takes the value that means it; null leaves the default."""
    assert decode(value, Everything) == Everything(**changes)  # type: ignore[arg-type]  # one row per attribute


def test_enums_of_texts_and_integers_become_members() -> None:
    """A member equals its value, but plugins compare with `is`."""
    found = decode({"hours": "Closed", "several": ["Open"], "level": 2}, Everything)
    assert (found.hours, found.several[0], found.level) == (Hours.CLOSED, Hours.OPEN, Level.HIGH)
    assert (type(found.hours), type(found.several[0]), type(found.level)) == (Hours, Hours, Level)


def test_other_subclasses_of_scalars_are_refused() -> None:
    """A value of the file would not have the class."""

    @attrs.frozen
    class Zoned:
        zone: Zone = Zone("a")  # noqa: RUF009 - immutable

    with pytest.raises(Mistakes, match=r"args cannot have the type Zone; write str @ \$\.zone"):
        decode({"zone": "b"}, Zoned)


def test_wire_objects_are_read_strictly() -> None:
    """A node affinity in args is the object that pods have, with no room for typos."""
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    term = {"matchExpressions": [expression]}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    assert decode({"affinity": {key: {"nodeSelectorTerms": [term]}}}, Everything).affinity == NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(
            node_selector_terms=(
                NodeSelectorTerm(
                    match_expressions=(NodeSelectorRequirement(key="zone", operator="In", values=("a",)),)
                ),
            )
        )
    )
    with pytest.raises(Mistakes) as caught:
        decode({"affinity": {key: {"nodeSelectorTerms": [{"matchExpression": [expression]}]}}}, Everything)
    assert str(caught.value) == (
        'unknown field "matchExpression", did you mean "matchExpressions"? '
        "@ $.affinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpression"
    )


def test_classes_may_contain_themselves() -> None:
    """A tree is read to any depth."""
    assert decode({"children": [{"children": [{}]}]}, Tree) == Tree([Tree([Tree()])])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param(value, problem, id=f"{next(iter(value), 'root')}: {next(iter(value.values()), '')}")
        for value, problem in [
            ({"text": 1}, "expected a string, found 1, put it in quotes @ $.text"),
            ({"text": True}, "expected a string, found true, put it in quotes @ $.text"),
            ({"text": ["a"]}, "expected a string, found a list @ $.text"),
            ({"number": "1"}, 'expected an integer, found the string "1" @ $.number'),
            ({"number": True}, "expected an integer, found true @ $.number"),
            ({"number": 1.5}, "expected an integer, found 1.5 @ $.number"),
            ({"number": 2**63}, "9223372036854775808 does not fit an integer of 64 bits @ $.number"),
            ({"small": 2**31}, "2147483648 does not fit an integer of 32 bits @ $.small"),
            ({"single": 1e39}, "1e+39 does not fit a float of 32 bits @ $.single"),
            ({"share": "1"}, 'expected a number, found the string "1" @ $.share'),
            ({"share": False}, "expected a number, found false @ $.share"),
            ({"flag": "true"}, 'expected true or false, found the string "true" @ $.flag'),
            ({"flag": 1}, "expected true or false, found 1 @ $.flag"),
            ({"data": 1}, "expected a string in base64, found 1 @ $.data"),
            ({"data": "a"}, "illegal base64 data @ $.data"),
            ({"permitWait": 5}, 'expected a duration such as "15s" or "1m30s", found 5 @ $.permitWait'),
            ({"permitWait": "5"}, 'time: missing unit in duration "5" @ $.permitWait'),
            ({"limit": "x"}, 'time: invalid duration "x" @ $.limit'),
            (
                {"room": "1 GB"},
                "quantity '1 GB' is malformed; write it like 500m, 2, 1.5Gi or 1e3 @ $.room",
            ),
            ({"room": True}, 'expected a quantity such as "500m", "1.5Gi" or 2, found true @ $.room'),
            ({"rooms": {"cpu": []}}, 'expected a quantity such as "500m", "1.5Gi" or 2, found a list @ $.rooms.cpu'),
            ({"maybe": "x"}, 'expected an integer, found the string "x" @ $.maybe'),
            ({"either": []}, "expected a string, found a list @ $.either"),
            ({"color": "blue"}, 'Unsupported value: "blue": supported values: "red" @ $.color'),
            ({"hours": "zzz"}, 'Unsupported value: "zzz": supported values: "Open", "Closed" @ $.hours'),
            (
                {"several": ["Open", "open"]},
                'Unsupported value: "open": supported values: "Open", "Closed" @ $.several[1]',
            ),
            ({"level": 3}, "Unsupported value: 3: supported values: 1, 2 @ $.level"),
            ({"mode": "x"}, 'Unsupported value: "x": supported values: "on", "off" @ $.mode'),
            ({"names": "abc"}, 'expected a list, found the string "abc" @ $.names'),
            ({"names": {"a": 1}}, "expected a list, found a mapping @ $.names"),
            ({"names": ["a", 1]}, "expected a string, found 1, put it in quotes @ $.names[1]"),
            ({"weights": [1]}, "expected a mapping, found a list @ $.weights"),
            ({"weights": {"a b": "1"}}, 'expected an integer, found the string "1" @ $.weights["a b"]'),
            ({"inner": 1}, "expected a mapping, found 1 @ $.inner"),
            ({"inner": {"Depth": 1}}, 'unknown field "Depth", did you mean "depth"? @ $.inner.Depth'),
            ({"inner": {"depth": -1}}, "'depth' must be >= 0: -1 @ $.inner.depth"),
            ({"inners": [{}, {"depth": ""}]}, 'expected an integer, found the string "" @ $.inners[1].depth'),
            (
                {"permitWaitSeconds": 5},
                'unknown field "permitWaitSeconds", did you mean "permitWait"? @ $.permitWaitSeconds',
            ),
            ({"qqqq": 1}, 'unknown field "qqqq" @ $.qqqq'),
            ({"computed": 1}, 'unknown field "computed" @ $.computed'),
            (
                {"text": "x", "plainSecond": 5},
                'unknown field "plainSecond", did you mean "plainSeconds"? @ $.plainSecond',
            ),
            ({"plai": 5}, 'unknown field "plai", did you mean "plainSeconds"? @ $.plai'),
            ({"names": ["x" * 100, 1]}, "expected a string, found 1, put it in quotes @ $.names[1]"),
            ({"number": "x" * 100}, f'expected an integer, found the string "{"x" * 59}... @ $.number'),
        ]
    ],
)
def test_other_values_are_refused(value: dict[str, object], problem: str) -> None:
    """Nothing is coerced; the message says what was expected, what is there, and where."""
    with pytest.raises(Mistakes) as caught:
        decode(value, Everything)
    assert str(caught.value) == problem


def test_all_mistakes_are_reported() -> None:
    """What is missing, unknown and wrong, together."""
    with pytest.raises(Mistakes) as caught:
        decode({"inner": {"depth": "x", "other": 1}, "extra": None}, Needy)
    assert [str(problem) for problem in caught.value.problems] == [
        'expected an integer, found the string "x" @ $.inner.depth',
        'unknown field "other" @ $.inner.other',
        'unknown field "extra" @ $.extra',
        "Required value @ $.needed",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "problems"),
    [
        pytest.param(None, [], id="none"),
        pytest.param({}, [], id="empty"),
        pytest.param({"kind": "NodeAffinityArgs"}, [], id="kind only"),
        pytest.param(
            {"kind": "NodeAffinityArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"}, [], id="kind and version"
        ),
        pytest.param({"kind": "", "apiVersion": None}, [], id="empty kind, null version"),
        pytest.param(
            {"kind": "InterPodAffinityArgs", "addedAffinity": 1},
            [
                OTHER_KIND,
                "expected a mapping, found 1 @ $.addedAffinity",
            ],
            id="another kind",
        ),
        pytest.param(
            {"apiVersion": "v1beta3"},
            ['no kind "NodeAffinityArgs" is registered for version "v1beta3" @ $.apiVersion'],
            id="another version",
        ),
        pytest.param(
            {"kind": "InterPodAffinityArgs", "apiVersion": "v1beta3"},
            [OTHER_KIND, 'no kind "InterPodAffinityArgs" is registered for version "v1beta3" @ $.apiVersion'],
            id="another kind and another version",
        ),
        pytest.param({"kind": 1}, ["expected a string, found 1, put it in quotes @ $.kind"], id="no kind at all"),
    ],
)
def test_args_may_have_kind_and_version(args: dict[str, object] | None, problems: list[str]) -> None:
    """`kind` and `apiVersion` inside args are accepted, and checked."""
    try:
        assert decode_args("NodeAffinity", args, NodeAffinityArgs) == NodeAffinityArgs()
        found = []
    except Mistakes as mistakes:
        found = [str(problem) for problem in mistakes.problems]
    assert found == problems


def test_args_of_other_plugins_may_have_their_own_version() -> None:
    """Only the kind is given by the plugin's name."""
    args = {"kind": "MineArgs", "apiVersion": "example.com/v1", "depth": 3}
    assert decode_args("Mine", args, Inner) == Inner(depth=3)
    with pytest.raises(Mistakes, match="args for plugin Mine were not of type MineArgs"):
        decode_args("Mine", {"kind": "YoursArgs"}, Inner)
