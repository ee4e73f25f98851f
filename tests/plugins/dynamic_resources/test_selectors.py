"""Device selectors in CEL: what matches, what does not, and what is an error and never a match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kube_cel import Meter, Program, compile_expression
from pyscheduler.api import Device, DeviceAttribute, DeviceCapacity
from pyscheduler.plugins.dynamic_resources import selectors as module
from pyscheduler.plugins.dynamic_resources.device_language import VARIABLES, device_value
from pyscheduler.plugins.dynamic_resources.selectors import DeviceSelectorError, DeviceSelectors

DRIVER = "dra.example.com"
OWN = f'device.attributes["{DRIVER}"]'
SIZES = f'device.capacity["{DRIVER}"]'
ATTRIBUTES: Mapping[str, DeviceAttribute] = {
    "on": DeviceAttribute(bool_value=True),
    "count": DeviceAttribute(int_value=4),
    "model": DeviceAttribute(string_value="A100-é"),
    "version": DeviceAttribute(version_value="1.10.0-rc.2"),
    "other.example.com/on": DeviceAttribute(bool_value=False),
}


def device(**fields: Any) -> Device:
    """Return a device with one attribute of each kind, and memory."""
    return Device(
        **{"name": "d", "attributes": ATTRIBUTES, "capacity": {"memory": DeviceCapacity(value="40Gi")}, **fields}
    )


def ask(expression: str, **fields: Any) -> bool:
    """Return whether the device satisfies an expression."""
    selectors = DeviceSelectors()
    return selectors.matches(expression, selectors.facts_of(DRIVER, device(**fields)))


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("true", id="constant"),
        pytest.param(f'device.driver == "{DRIVER}"', id="driver"),
        pytest.param(f"{OWN}.on", id="a bool attribute is the answer"),
        pytest.param(f'{OWN}["on"]', id="by key"),
        pytest.param('device.attributes["other.example.com"].on == false', id="qualified name"),
        pytest.param(f'{SIZES}.memory.compareTo(quantity("40Gi")) == 0', id="quantity"),
        pytest.param('"memory" in device.capacity["no.such"] == false', id="unknown domain holds nothing"),
        pytest.param('!("no.such" in device.attributes)', id="unknown domain is not listed"),
        pytest.param('has(device.attributes["no.such"].x) == false', id="has, unknown domain"),
        pytest.param(f"has({OWN}.on) && !has({OWN}.off)", id="has"),
        pytest.param(f'device.attributes["no.such"].x || {OWN}.on', id="an error beside true"),
        pytest.param(f'device.attributes.exists_one(d, d == "{DRIVER}")', id="loop over domains"),
        pytest.param(f'{OWN}.exists(name, name == "count") && [1, 2].all(x, x > 0)', id="loop over names"),
        pytest.param("device.allowMultipleAllocations == false", id="shared: not by default"),
    ],
)
def test_match(expression: str) -> None:
    """What kube-scheduler's CEL takes for true is true here."""
    assert ask(expression)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("false", id="constant"),
        pytest.param('device.attributes["other.example.com"].on', id="false attribute"),
        pytest.param(f'device.attributes["no.such"].x && {OWN}.count == 5', id="an error beside false"),
    ],
)
def test_no_match(expression: str) -> None:
    """False is not an error."""
    assert not ask(expression)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        pytest.param("?!", "compile error: compilation failed: ERROR: <input>:1:1: Syntax error", id="syntax"),
        pytest.param("1", "compile error: must evaluate to bool or the unknown type, not int", id="not a bool"),
        pytest.param("nope || true", "undeclared reference to 'nope'", id="unknown name is not hidden by true"),
        pytest.param("nope(1) || true", "undeclared reference to 'nope'", id="unknown function"),
        pytest.param("device.nope", "undefined field 'nope'", id="unknown field"),
        pytest.param(
            "device", "must evaluate to bool or the unknown type, not kubernetes.DRADevice", id="device itself"
        ),
        pytest.param(f'{OWN}[?"on"]', "the unknown type, not optional_type(google.protobuf.Any)", id="optional"),
        pytest.param("true" + " " * 10240, "expression is too long", id="long"),
        pytest.param(f"{OWN}.off", "runtime error: no such key: off", id="unknown attribute"),
        pytest.param('device.attributes["no.such"].x', "runtime error: no such key: x", id="unknown domain"),
        pytest.param(f'{OWN}.count.isGreaterThan(quantity("1"))', "no such overload", id="wrong receiver"),
        pytest.param(f'{OWN}.version.isGreaterThan(quantity("1"))', "no such overload", id="version and quantity"),
        pytest.param(
            f"{OWN}.model", "runtime error: CEL result of type string could not be converted to bool", id="result"
        ),
        pytest.param('semver("1.0").major() == 1', "runtime error: No Major.Minor.Patch elements found", id="version"),
    ],
)
def test_error(expression: str, why: str) -> None:
    """What cannot be answered is told, in kube-scheduler's words where it has the same error."""
    with pytest.raises(DeviceSelectorError) as caught:
        ask(expression)
    assert str(caught.value).startswith("CEL ")
    assert why in str(caught.value)


def nested(depth: int) -> str:
    """Return loops within loops over ten numbers."""
    text = "true"
    for level in range(depth):
        text = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(v{level}, {text})"
    return text


def test_cost_is_bounded() -> None:
    """Loops within loops that would hold the scheduler up are refused before they run."""
    assert ask(nested(4))
    with pytest.raises(DeviceSelectorError, match="actual cost limit exceeded"):
        ask(nested(6))
    with pytest.raises(DeviceSelectorError, match="actual cost limit exceeded"):
        ask('"x"' + '.replace("x", "xxxxxxxx")' * 8 + ' == ""')


@pytest.mark.parametrize(
    ("attribute", "why"),
    [
        pytest.param(DeviceAttribute(), "attribute bad: unsupported attribute value", id="nothing"),
        pytest.param(
            DeviceAttribute(string_values=("a", "b")), "attribute bad: unsupported attribute value", id="list"
        ),
        pytest.param(
            DeviceAttribute(version_value="1.2"),
            "attribute bad: parse semantic version: No Major.Minor.Patch elements found",
            id="version",
        ),
    ],
)
def test_attributes_that_nobody_can_read(attribute: DeviceAttribute, why: str) -> None:
    """Such a device makes every selector an error, as in kube-scheduler: allocating wrongly is harder to mend."""
    with pytest.raises(DeviceSelectorError, match=f"CEL runtime error: {why}"):
        ask("true", attributes={"bad": attribute})


def test_alike_devices_are_asked_once() -> None:
    """Devices that differ in nothing but their name share their facts, and each expression runs once for all."""
    selectors = DeviceSelectors()
    one, two, more = device(name="a"), device(name="b"), device(name="c", allow_multiple_allocations=True)
    facts = selectors.facts_of(DRIVER, one)
    assert selectors.facts_of(DRIVER, two) is facts
    assert selectors.facts_of(DRIVER, one) is facts
    assert selectors.facts_of(DRIVER, more) is not facts
    assert selectors.facts_of("other.example.com", one) is not facts
    assert selectors.matches(f"{OWN}.on", facts)
    weight = selectors.weight
    assert selectors.matches(f"{OWN}.on", facts)
    assert selectors.weight == weight, "nothing was worked out again"


@pytest.mark.parametrize(
    ("expression", "runs"),
    [
        pytest.param(f'{OWN}.model == "a" && sign({SIZES}["memory"]) == 0', 2, id="named"),
        pytest.param("device.attributes['dra.example.com']['other.example.com'] == 1 || true", 1, id="nobody has it"),
        pytest.param(f'device.driver == "{DRIVER}"', 1, id="driver"),
        pytest.param("true", 1, id="nothing"),
        pytest.param(f'{OWN}.serial == "7"', 20, id="serial number"),
        pytest.param(f'"model" in {OWN}', 20, id="all of a domain"),
        pytest.param('device.attributes["dra." + "example.com"].model == "a"', 20, id="worked out"),
        pytest.param(f"cel.bind(own, {OWN}, own.model != own.model)", 20, id="by another name"),
        pytest.param('"x" in device.attributes', 20, id="all domains"),
    ],
)
def test_what_nobody_asks_for_makes_no_difference(expression: str, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices with serial numbers of their own share the answer, where it can be seen that it does not ask for them."""
    ran = Counter[str]()
    evaluate = Program.evaluate

    def counted(program: Program, values: Sequence[object], meter: Meter) -> Any:
        ran[expression] += 1
        return evaluate(program, values, meter)

    monkeypatch.setattr(Program, "evaluate", counted)
    selectors = DeviceSelectors()
    for index in range(20):
        attributes = {
            "serial": DeviceAttribute(string_value=str(index)),
            "dra.example.com/model": DeviceAttribute(string_value="ab"[index % 2]),
        }
        one = device(attributes=attributes, capacity={"memory": DeviceCapacity(value="0")})
        facts = selectors.facts_of(DRIVER, one)
        program = compile_expression(expression, VARIABLES, Meter())
        fresh = evaluate(program, (device_value(DRIVER, one),), Meter())
        assert selectors.matches(expression, facts) is fresh
    assert ran[expression] == runs


def test_many_devices_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of devices is bounded, and forgetting changes no answer."""
    monkeypatch.setattr(module, "_MOST_DEVICES", 3)
    selectors = DeviceSelectors()
    devices = [device(name=f"d{index}", attributes={"n": DeviceAttribute(int_value=index)}) for index in range(10)]
    for index, one in enumerate(devices):
        assert selectors.matches(f"{OWN}.n == {index}", selectors.facts_of(DRIVER, one))
        assert len(selectors._by_identity) <= 3


# Random expressions against rules written down

FAILS = object()
LEAVES: dict[str, object] = {
    "true": True,
    "false": False,
    f"{OWN}.on": True,
    f'{OWN}["count"]': 4,
    f"{OWN}.model": "A100-é",
    f"{OWN}.off": FAILS,
    'device.attributes["no.such"].x': FAILS,
    f"has({OWN}.on)": True,
    f"has({OWN}.off)": False,
    '("x" in device.capacity["no.such"])': False,
    f'{SIZES}.memory.isGreaterThan(quantity("1Gi"))': True,
    f"{SIZES}.disk.isGreaterThan(quantity('1Gi'))": FAILS,
    f'{OWN}.version.isGreaterThan(semver("2.0.0"))': False,
    f'{OWN}.count.isGreaterThan(quantity("1"))': FAILS,
}
Tree = tuple[str, object]


def both(left: Tree, right: Tree, mark: str) -> Tree:
    """Join two expressions by && or ||: what decides alone decides, whatever becomes of the other."""
    decisive = mark == "||"
    values = (left[1], right[1])
    joined = decisive if any(one is decisive for one in values) else not decisive
    if joined is not decisive and not all(isinstance(one, bool) for one in values):
        return f"({left[0]} {mark} {right[0]})", FAILS
    return f"({left[0]} {mark} {right[0]})", joined


def equal(left: Tree, right: Tree, mark: str) -> Tree:
    """Compare two expressions; values of different types are not equal, and that is no error."""
    text = f"({left[0]} {mark} {right[0]})"
    if FAILS in (left[1], right[1]):
        return text, FAILS
    same = type(left[1]) is type(right[1]) and left[1] == right[1]
    return text, same is (mark == "==")


def negated(one: Tree) -> Tree:
    """Negate what is a bool."""
    return f"!({one[0]})", not one[1] if isinstance(one[1], bool) else FAILS


def chosen(condition: Tree, left: Tree, right: Tree) -> Tree:
    """Choose by a bool; what is not chosen does not count."""
    text = f"({condition[0]} ? {left[0]} : {right[0]})"
    if not isinstance(condition[1], bool):
        return text, FAILS
    return text, left[1] if condition[1] else right[1]


def bound(one: Tree) -> Tree:
    """Give a value a name."""
    return f"cel.bind(v, {one[0]}, v)", one[1]


def trees() -> st.SearchStrategy[Tree]:
    """Return expressions with what becomes of them."""
    return st.recursive(
        st.sampled_from(sorted(LEAVES)).map(lambda text: (text, LEAVES[text])),
        lambda inner: st.one_of(
            st.builds(both, inner, inner, st.sampled_from(["&&", "||"])),
            st.builds(equal, inner, inner, st.sampled_from(["==", "!="])),
            st.builds(negated, inner),
            st.builds(chosen, inner, inner, inner),
            st.builds(bound, inner),
        ),
        max_leaves=8,
    )


def test_random_expressions_go_by_the_rules() -> None:
    """Never a match where the rules say no or error, and the other way round."""
    fired: Counter[str] = Counter()

    @given(trees())
    def check(tree: Tree) -> None:
        text, value = tree
        expected = str(value) if isinstance(value, bool) else "error"
        try:
            found = str(ask(text))
        except DeviceSelectorError:
            found = "error"
        assert found == expected, text
        fired[expected] += 1

    check()
    print(dict(fired))  # noqa: T201 - shown when a count below is missing
    assert all(fired[one] for one in ("True", "False", "error"))


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expressions and answers weigh a few MiB at most, whoever writes how many; forgetting changes no answer."""
    monkeypatch.setattr(module, "_MOST_WEIGHT", 100_000)
    selectors = DeviceSelectors()
    devices = [device(attributes={"n": DeviceAttribute(int_value=index)}) for index in range(40)]
    for number in range(30):
        for index, one in enumerate(devices):
            facts = selectors.facts_of(DRIVER, one)
            assert selectors.matches(f"{OWN}.n == {number}", facts) is (index == number)
            assert selectors.weight <= 100_000
    assert len(selectors._compiled) > 1
    kept = selectors._compiled.values()
    assert selectors.weight == sum(each.weight for each in kept)
    # One expression alone may have too many answers, too.
    monkeypatch.setattr(module, "_MOST_WEIGHT", 12_000)
    for one in devices * 2:
        selectors.matches(f"{OWN}.n >= 0", selectors.facts_of(DRIVER, one))
        assert selectors.weight <= 12_000


def test_nothing_is_kept_of_an_evaluation_that_was_ended() -> None:
    """What the pause raises comes out, and the same question asked with more time has an answer."""

    class HurryError(Exception):
        pass

    def hurry() -> None:
        raise HurryError

    selectors = DeviceSelectors()
    facts = selectors.facts_of(DRIVER, device())
    expression = f"lists.range(3000).all(x, x >= 0) && {OWN}.on"
    with pytest.raises(HurryError):
        selectors.matches(expression, facts, hurry)
    assert selectors.matches(expression, facts)


def test_messages_are_not_longer_than_anybody_reads() -> None:
    """A tenant's text within an error is cut off."""
    with pytest.raises(DeviceSelectorError) as caught:
        ask(f"{OWN}['" + "x" * 9000 + "'] == 1")
    assert len(str(caught.value)) < 5000
