"""Expressions that are written to take time or memory: all of them end, and none takes much of either."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import example, given, settings, strategies as st

from kube_cel import (
    MAX_MEMORY,
    QUANTUM,
    CelCancelledError,
    CelCompileError,
    CelError,
    CelInternalError,
    Meter,
    compile_expression,
)
from kube_cel.types import STRING

VARIABLES = {"text": STRING}
TEN = f"[{', '.join(['1'] * 10)}]"
THREE_HUNDRED = f"[{', '.join(['1'] * 300)}]"


class OutOfTimeError(Exception):
    """What a caller ends an evaluation with."""


def run(expression: str, pauses: int = 100_000) -> object:
    """Return the value of an expression, or its error; raise `OutOfTimeError` after so many pauses."""
    left = pauses

    def pause() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OutOfTimeError

    try:
        program = compile_expression(expression, VARIABLES, Meter(pause), plain=True)
        return program.evaluate(("abc",), Meter(pause))
    except (CelCompileError, CelError, CelInternalError) as error:
        return error


def binds(step: str, levels: int, body: str, start: str = TEN) -> str:
    """Return values bound to a0, a1 ..., each made of the one before, which `step` calls X, and an expression."""
    text = body
    for level in range(levels, 0, -1):
        text = f"cel.bind(a{level}, {step.replace('X', f'a{level - 1}')}, {text})"
    return f"cel.bind(a0, {start}, {text})"


TENFOLD = "+".join(["X"] * 10)


@pytest.mark.slow
def test_a_list_added_to_itself_takes_no_memory() -> None:
    """The attack of a chain of `cel.bind`, each ten times the one before: a list of a billion is never written out."""
    assert run(binds(TENFOLD, 8, "a8[0] == 1 && text != ''")) is True
    assert run(binds(TENFOLD, 8, "a8.size()")) == 10**9
    assert str(run(binds(TENFOLD, 8, "a8.all(x, x == 1)"))) == "operation cancelled: actual cost limit exceeded"


BOMBS = [
    pytest.param(binds(TENFOLD, 8, "a8 == a8"), id="compare long lists"),
    pytest.param(binds(f"[{', '.join(['X'] * 10)}]", 7, "'%s'.format([a7]) == ''"), id="write out nested lists"),
    pytest.param(binds(f"[{', '.join(['X'] * 10)}]", 7, "a7.flatten(9).size()"), id="flatten"),
    pytest.param("'x'" + ".replace('', 'xxxxxxxxxxxxxxxxxxxx')" * 9, id="replace"),
    pytest.param(binds("X+X+X+X+X+X+X+X", 12, "a12.size()", "'xxxxxxxx'"), id="add texts"),
    pytest.param(binds("[X, X, X, X].join()", 14, "a14.size()", "'xxxxxxxx'"), id="join"),
    pytest.param(binds("[X, X, X, X].join(X)", 14, "a14.size()", "'xxxxxxxx'"), id="join with a long separator"),
    pytest.param("'%.2000000000f'.format([1.0]).size()", id="precision"),
    pytest.param("'%.2000000000e'.format([1.0]).size()", id="width"),
    pytest.param("lists.range(9000000000000).size()", id="range"),
    pytest.param("lists.range(900000).reverse().size()", id="reverse"),
    pytest.param("lists.range(90000).map(x, string(x) + 'xxxxxxxxxxxxxxxxxxxxxx').size()", id="many texts"),
    pytest.param("lists.range(20000).transformMap(i, v, v).size()", id="large map"),
    pytest.param("'a'.matches('" + "(a{1000})" * 900 + "')", id="large pattern"),
    pytest.param("'" + "a," * 4000 + "'.split('').map(x, x.split('')).size()", id="split"),
    pytest.param("quantity('1e1000000000').add(quantity('1e-9')).isInteger()", id="quantity"),
    pytest.param("b'" + "a" * 5000 + "'.size() + " + binds("X+X+X+X+X+X", 9, "a9.size()", "b'aaaa'"), id="bytes"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("expression", BOMBS)
def test_memory_is_bounded(expression: str) -> None:
    """What would grow without end is broken off before it has taken more than a few MiB."""
    run("1 + 1")
    tracemalloc.start()
    try:
        found = run(expression)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(found, CelCancelledError), found
    assert peak < 4 * MAX_MEMORY


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(f"{THREE_HUNDRED}.all(x, {THREE_HUNDRED}.all(y, x == y && text != ''))", id="loops"),
        pytest.param(
            binds(f"[{', '.join(['X'] * 10)}]", 6, binds(f"[{', '.join(['X'] * 10)}]", 6, "a6 == a6", "[2, 1]")),
            id="compare nested lists",
        ),
        pytest.param("'" + "a" * 3000 + "'.matches('(a?){1000}a{1000}')", id="regular expression"),
        pytest.param("'" + "a" * 9000 + "!'.matches('(a+)+$')", id="regular expression that backtracks"),
        pytest.param("lists.range(600).distinct().size() == 1", id="distinct"),
        pytest.param("[" + "[], " * 3000 + "[]].size() == 0", id="many types"),
        pytest.param(" || ".join(["1 > 2"] * 1200), id="many operators"),
    ],
)
def test_work_can_be_broken_off(expression: str) -> None:
    """What takes long pauses again and again, and ends there if its caller wants it to."""
    with pytest.raises(OutOfTimeError):
        run(expression, pauses=4)


def test_patterns_take_time_in_proportion() -> None:
    """A pattern with loops in loops takes as many steps as the text and the pattern are long, not two to the power."""
    meter = Meter()
    program = compile_expression("'" + "a" * 2000 + "!'.matches(text)", VARIABLES, meter)
    meter = Meter()
    assert program.evaluate(("(a+)+$",), meter) is False
    assert meter.steps < 100_000


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        pytest.param("(" * 300 + "1" + ")" * 300, "expression recursion limit exceeded: 250", id="brackets"),
        pytest.param("[" * 300 + "]" * 300, "expression recursion limit exceeded: 250", id="lists"),
        pytest.param("+".join(["1"] * 2000), "recursion limit exceeded: 250", id="additions"),
        pytest.param("text" + ".x" * 2000, "recursion limit exceeded: 250", id="fields"),
        pytest.param("[1].map(x, " * 245 + "x" + ")" * 245, "", id="loops"),
        pytest.param("optional.of(1)" + ".optMap(x, x)" * 248, "nests too deeply", id="optional values"),
    ],
)
def test_depth_is_bounded(expression: str, why: str) -> None:
    """What nests too deeply is an error of the expression, never one of Python."""
    assert why in str(run(expression))


def test_deep_expressions_work() -> None:
    """What Kubernetes takes is taken here, down to the same depth."""
    assert run("(" * 248 + "1" + ")" * 248) == 1
    assert run("!" * 2000 + "true") is True
    assert run(" && ".join(["true"] * 1500)) is True
    assert run("[1].map(x, " * 100 + "x" + ")" * 100) is not None


def test_types_that_double_do_not_take_for_ever() -> None:
    """A map of maps of maps has a type that is twice as long at each level; nobody writes it out."""
    text = binds("{X: X}", 100, "a100.size()", "{1: 1}")
    assert run(text) == 1
    assert len(str(run(binds("{X: X}", 100, "a100 + 1", "{1: 1}")))) < 20_000


# Anything at all

ATOMS = """
1 0 -1 2u 1.5 'a' b'a' true null [] {} text x 9223372036854775807 '(' lists.range(1000) 'a'+'b' duration('1h')
timestamp(0) optional.none() [1,2,3] {'a':1}
""".split()  # noqa: SIM905 - read like this
FORMS = """
({0}+{1}) ({0}=={1}) ({0}&&{1}) ({0}?{1}:{0}) [{0},{1}] {{{0}:{1}}} {0}[{1}] {0}.map(x,{1}) {0}.all(x,{1})
{0}.exists(x,i,{1}) cel.bind(x,{0},{1}) dyn({0}) -{0} {0}.matches({1}) {0}.find({1}) '%s%d'.format([{0},{1}])
{0}.replace({1},'aa') {0}.split({1}) {0}.join({1}) {0}.sortBy(x,{1}) {0}.transformMap(x,i,{1}) {0}.flatten({1})
size({0}) {0}.?a string({0}) int({0}) ({0}in({1})) {0}.distinct() {0}.sum() has({0}.a) {0}.indexOf({1})
{0}.optMap(x,{1}) sets.contains({0},{1}) quantity({0}) semver({0}) url({0}) ip({0}) ({0},{1}
""".split()  # noqa: SIM905 - the same
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.builds(lambda form, *parts: form.format(*parts), st.sampled_from(FORMS), inner, inner),
    max_leaves=14,
)


@settings(max_examples=5 * settings.default.max_examples)
@given(EXPRESSIONS | st.text(max_size=60))
@example("'\ud800'")
@example("[?dyn(1)]")
def test_any_expression_ends(expression: str) -> None:
    """Whatever is written, evaluation ends with a value or an error of the language, or pauses until it is ended."""
    with contextlib.suppress(OutOfTimeError):
        run(expression, pauses=300)


def test_pauses_come_after_so_many_steps() -> None:
    """The meter counts steps and pauses at each quantum; what the pause raises ends the work."""
    paused = 0

    def pause() -> None:
        nonlocal paused
        paused += 1

    meter = Meter(pause)
    meter.tick(QUANTUM * 3 + 1)
    assert (paused, meter.steps) == (3, QUANTUM * 3)
