"""Rules in CEL of CustomResourceDefinitions: which are refused, and what they say against objects."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
MERGE = "application/merge-patch+json"
RULES = "x-kubernetes-validations"
SPEC = "spec.validation.openAPIV3Schema.properties[spec]"
NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)
INT = {"type": "integer"}
TEXT = {"type": "string"}


def rule(text: str, **fields: Any) -> dict[str, Any]:
    """Return a rule."""
    return {"rule": text, **fields}


def ruled(schema: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with rules."""
    return {**schema, RULES: list(rules)}


def objects(**properties: Any) -> dict[str, Any]:
    """Return the schema of objects."""
    return {"type": "object", "properties": properties}


def lists(items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the schema of lists."""
    return {"type": "array", "items": items, **fields}


def definition(spec: dict[str, Any], *rules: dict[str, Any], status: Any = None, **versions: Any) -> dict[str, Any]:
    """Return a definition whose objects have this spec; further `versions` have other schemas of the spec."""
    made = []
    for name, schema in {"v1": spec, **versions}.items():
        whole = ruled(objects(spec=schema, status=status or objects()), *rules)
        fields = {"served": True, "storage": name == "v1", "subresources": {"status": {}}}
        made.append({"name": name, **fields, "schema": {"openAPIV3Schema": whole}})
    names = {"plural": "things", "kind": "Thing"}
    group = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": made}
    return {"metadata": {"name": "things.example.com"}, "spec": group}


def thing(name: str = "t", **fields: Any) -> dict[str, Any]:
    """Return an object."""
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, **fields}


def problems_in(message: str) -> list[str]:
    """Return the problems that a refusal names."""
    text = message.partition(" is invalid: ")[2]
    return text.removeprefix("[").removesuffix("]").split(", ") if text.startswith("[") else [text]


# --- objects ------------------------------------------------------------------------------------------

SCHEMA = ruled(
    objects(
        low=INT,
        high=INT,
        name=ruled(TEXT, rule("self.startsWith('a')", message=" must start with a ")),
        list=lists(
            ruled(objects(n=ruled(INT, rule("self > 0"))), rule("self.n < 10", message="too many", fieldPath=".n"))
        ),
        set=lists(ruled(TEXT, rule("self != 'bad'"))),
        map={
            "type": "object",
            "additionalProperties": ruled(INT, rule("self < 100", reason="FieldValueForbidden", message="big")),
        },
        either=ruled({"x-kubernetes-int-or-string": True}, rule("self > 5"), rule("self > 6", message="six")),
        size=ruled(TEXT, rule("isQuantity(self)", messageExpression="'not a quantity: ' + self")),
        when=ruled({**TEXT, "format": "date-time"}, rule("self > timestamp('2020-01-01T00:00:00Z')")),
        day=ruled({**TEXT, "format": "date"}, rule("self > timestamp('2020-01-01T00:00:00Z')")),
        long=ruled({**TEXT, "format": "duration"}, rule("self > duration('1m')")),
        raw=ruled({**TEXT, "format": "byte"}, rule("size(self) == 1")),
        share=ruled({"type": "number"}, rule("self > 0.5")),
        on=ruled({"type": "boolean"}, rule("self")),
        maybe=ruled({**objects(y={**INT, "nullable": True}), "nullable": True}, rule("!has(self.y) || self.y == 1")),
        ratio=ruled(objects(a=INT, b=INT), rule("self.a / self.b == 1", message="equal")),
        first=ruled(lists(TEXT), rule("self[0] != 'q'")),
        twice=ruled(
            INT, rule("self != 3", reason="FieldValueDuplicate"), rule("self != 4", reason="FieldValueRequired")
        ),
        both=ruled(
            objects(a=INT, b=INT),
            rule("has(self.a)", reason="FieldValueRequired", fieldPath=".a", message="a needed"),
            rule("!has(self.b) || self.b != 3", reason="FieldValueDuplicate", fieldPath=".b"),
        ),
        said=ruled(
            INT,
            rule("self != 1", messageExpression="string(1 / (self - 1))"),
            rule("self != 2", messageExpression="''", message="fallback"),
            rule("self != 3", messageExpression="'a\\nb'"),
            rule("self != 4", messageExpression="' padded '"),
        ),
        pattern=ruled({**TEXT, "pattern": "^a"}, rule("self != 'b'")),
        filled=ruled(objects(x={**INT, "default": 7}), rule("self.x == 7")),
        **{"if": INT, "odd-name": INT, "a__b.c": INT},
        inner={**objects(), "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        busy=ruled(lists(INT), rule("self.all(a, self.all(b, self.all(c, a + b + c > 0)))")),
    ),
    rule("!has(self.low) || self.low <= self.high", messageExpression="self.low > 99 ? 'far over' : 'low over high'"),
    rule("!has(self.__if__) || self.__if__ < 5"),
    rule("!has(self.odd__dash__name) || self.odd__dash__name < 5"),
    rule("!has(self.a__underscores__b__dot__c) || self.a__underscores__b__dot__c < 5"),
    rule("!has(self.inner) || self.inner.kind != 'Bad' && self.inner.metadata.name != 'bad'", message="inner"),
)


@pytest.fixture
async def defined(api: Any) -> None:
    """Create the definition."""
    of_object = rule("self.metadata.name != 'forbidden'", message="bad name")
    of_both = rule(
        "!has(self.status) || !has(self.status.n) || !has(self.spec.low) || self.spec.low >= self.status.n",
        message="status over spec",
    )
    status = objects(n=ruled(INT, rule("self < 5")))
    await api.ok("POST", CRDS, definition(SCHEMA, of_object, of_both, status=status))


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        pytest.param({"name": "b"}, ['spec.name: Invalid value: "b": must start with a'], id="message"),
        pytest.param({"low": 3, "high": 2}, ["spec: Invalid value: low over high"], id="of an object"),
        pytest.param(
            {"list": [{"n": 1}, {"n": 0}, {"n": 11}]},
            ["spec.list[1].n: Invalid value: 0: failed rule: self > 0", "spec.list[2].n: Invalid value: too many"],
            id="items and field path",
        ),
        pytest.param(
            {"set": ["a", "bad"]}, ["spec.set[1]: Invalid value: \"bad\": failed rule: self != 'bad'"], id="text"
        ),
        pytest.param({"map": {"b c": 200}}, ["spec.map[b c]: Forbidden: big"], id="values and reason"),
        pytest.param({"either": 6}, ["spec.either: Invalid value: 6: six"], id="integer or string"),
        pytest.param(
            {"either": "x"},
            [
                "spec.either: Invalid value: \"\": 'no such overload': call arguments did not match a supported "
                f"operator, function or macro signature for rule: {name}"
                for name in ("self > 5", "six")
            ],
            id="no overload",
        ),
        pytest.param({"size": "zz"}, ['spec.size: Invalid value: "zz": not a quantity: zz'], id="expression"),
        pytest.param(
            {"when": "2019-01-01T00:00:00Z"},
            [
                (
                    'spec.when: Invalid value: "2019-01-01T00:00:00Z": failed rule: '
                    "self > timestamp('2020-01-01T00:00:00Z')"
                )
            ],
            id="time",
        ),
        pytest.param(
            {"day": "2019-01-01"},
            ["spec.day: Invalid value: \"2019-01-01\": failed rule: self > timestamp('2020-01-01T00:00:00Z')"],
            id="day",
        ),
        pytest.param(
            {"when": "zz"},
            ['spec.when: Invalid value: "zz": spec.when in body must be of type date-time: "zz"', NOT_CHECKED],
            id="no time",
        ),
        pytest.param(
            {"long": "1s"}, ["spec.long: Invalid value: \"1s\": failed rule: self > duration('1m')"], id="duration"
        ),
        pytest.param(
            {"long": "zz"},
            ['spec.long: Invalid value: "zz": spec.long in body must be of type duration: "zz"', NOT_CHECKED],
            id="no duration",
        ),
        pytest.param({"raw": "YWI="}, ['spec.raw: Invalid value: "YWI=": failed rule: size(self) == 1'], id="bytes"),
        pytest.param({"share": 0.2}, ["spec.share: Invalid value: 0.2: failed rule: self > 0.5"], id="number"),
        pytest.param({"on": False}, ["spec.on: Invalid value: false: failed rule: self"], id="boolean"),
        pytest.param(
            {"ratio": {"a": 1, "b": 0}},
            ['spec.ratio: Invalid value: "object": division by zero evaluating rule: equal'],
            id="error",
        ),
        pytest.param(
            {"ratio": {"a": 1}},
            ['spec.ratio: Invalid value: "object": no such key: b evaluating rule: equal'],
            id="no field",
        ),
        pytest.param(
            {"first": []},
            ["spec.first: Invalid value: \"array\": index out of bounds: 0 evaluating rule: self[0] != 'q'"],
            id="no item",
        ),
        pytest.param({"twice": 3}, ["spec.twice: Duplicate value: 3"], id="duplicate"),
        pytest.param({"twice": 4}, ["spec.twice: Required value: failed rule: self != 4"], id="required"),
        pytest.param(
            {"both": {"b": 3}}, ["spec.both.a: Required value: a needed", "spec.both.b: Duplicate value"], id="reasons"
        ),
        pytest.param({"said": 1}, ["spec.said: Invalid value: 1: failed rule: self != 1"], id="message that fails"),
        pytest.param({"said": 2}, ["spec.said: Invalid value: 2: fallback"], id="empty message"),
        pytest.param({"said": 3}, ["spec.said: Invalid value: 3: failed rule: self != 3"], id="message of two lines"),
        pytest.param({"said": 4}, ["spec.said: Invalid value: 4: padded"], id="padded message"),
        pytest.param(
            {"pattern": "b"},
            [
                "spec.pattern: Invalid value: \"b\": spec.pattern in body should match '^a'",
                "spec.pattern: Invalid value: \"b\": failed rule: self != 'b'",
            ],
            id="rules after a pattern",
        ),
        pytest.param(
            {"low": "x", "name": "b"},
            ['spec.low: Invalid value: "string": spec.low in body must be of type integer: "string"', NOT_CHECKED],
            id="no rules after a wrong type",
        ),
        pytest.param({"filled": {"x": 8}}, ["spec.filled: Invalid value: failed rule: self.x == 7"], id="default"),
        pytest.param({"inner": {"kind": "Bad"}}, ["spec: Invalid value: inner"], id="embedded"),
    ],
)
async def test_rules_refuse(api: Any, defined: None, spec: dict[str, Any], problems: list[str]) -> None:
    """Each failed rule is named, in the words of the real server."""
    status, reason, message = await api.refused("POST", THINGS, thing(spec=spec))
    assert (status, reason) == (422, "Invalid")
    found = message.removeprefix('Thing.example.com "t" is invalid: ')
    assert found == (problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


@pytest.mark.parametrize("name", ["if", "odd-name", "a__b.c"])
async def test_names_of_fields_are_escaped(api: Any, defined: None, name: str) -> None:
    """A field whose name CEL cannot spell has another name in rules."""
    await api.ok("POST", THINGS, thing("small", spec={name: 4}))
    assert (
        "spec: Invalid value: failed rule: !has(self." in (await api.refused("POST", THINGS, thing(spec={name: 5})))[2]
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"low": 1, "high": 2, "name": "a", "list": [{"n": 9}], "set": ["a"], "map": {"a": 1}, "either": 7},
        {"size": "1Gi", "when": "2029-01-01T00:00:00.5+02:00", "day": "2029-01-01", "long": "1h30m", "raw": "YQ=="},
        {"long": "1d", "share": 1, "on": True, "ratio": {"a": 2, "b": 2}, "twice": 1, "filled": {}},
        {"maybe": None},
        {"maybe": {"y": None}},
        {"inner": {"kind": "Good", "metadata": {"name": "good"}, "more": 1}},
    ],
)
async def test_rules_that_hold(api: Any, defined: None, spec: dict[str, Any]) -> None:
    """An object that keeps all rules is stored; rules of absent fields do not apply."""
    created = await api.ok("POST", THINGS, thing(spec=spec))
    assert await api.ok("GET", f"{THINGS}/{created['metadata']['name']}") == created


async def test_rules_of_the_whole_object(api: Any, defined: None) -> None:
    """At the root, rules read the name; a write of the status is checked as well."""
    message = (await api.refused("POST", THINGS, thing("forbidden")))[2]
    assert message == 'Thing.example.com "forbidden" is invalid: <nil>: Invalid value: bad name'
    await api.ok("POST", THINGS, thing(spec={"low": 3, "high": 9}))

    async def refusal(path: str, patch: dict[str, Any]) -> list[str]:
        return problems_in((await api.refused("PATCH", f"{THINGS}/t{path}", patch, content_type=MERGE))[2])

    both = ["<nil>: Invalid value: status over spec", "status.n: Invalid value: 9: failed rule: self < 5"]
    assert await refusal("/status", {"status": {"n": 9}}) == both
    await api.ok("PATCH", f"{THINGS}/t/status", {"status": {"n": 3}}, content_type=MERGE)
    assert await refusal("", {"spec": {"low": 1}}) == both[:1]


@pytest.mark.slow
async def test_rules_that_cost_too_much(api: Any, defined: None) -> None:
    """A rule that takes too long ends, and so does the check of its value."""
    status, _, message = await api.refused("POST", THINGS, thing(spec={"busy": [1] * 200}))
    assert status == 422
    why = "no further validation rules will be run due to call cost exceeds limit for rule"
    assert f"spec.busy: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': {why}" in message


# --- changes ------------------------------------------------------------------------------------------

GROW = rule("self >= oldSelf", message="must grow")
CHANGING = objects(
    fixed=ruled(TEXT, rule("self == oldSelf", message="immutable")),
    once=ruled(TEXT, rule("!oldSelf.hasValue() || self == oldSelf.value()", message="once", optionalOldSelf=True)),
    never=ruled(TEXT, rule("oldSelf.hasValue()", message="not new", optionalOldSelf=True)),
    map={"type": "object", "additionalProperties": ruled(INT, GROW)},
    keyed=ruled(
        lists(
            {**objects(k=TEXT, v=ruled(INT, GROW)), "required": ["k"]},
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        ),
        rule("size(self) < 2 || self == oldSelf", message="keyed changed"),
    ),
    set=ruled(lists(TEXT, **{"x-kubernetes-list-type": "set"}), rule("self == oldSelf", message="set changed")),
    list=ruled(lists(TEXT), rule("self == oldSelf", message="list changed")),
    plain=lists(objects(n=INT)),
    count=INT,
)
STORED = {
    "fixed": "f",
    "once": "o",
    "map": {"a": 5},
    "keyed": [{"k": "a", "v": 5}, {"k": "b", "v": 6}],
    "set": ["a", "b"],
    "list": ["a", "b"],
    "plain": [{"n": 1}],
}


@pytest.mark.parametrize(
    ("patch", "problems"),
    [
        pytest.param({"fixed": "g"}, ['spec.fixed: Invalid value: "g": immutable'], id="immutable"),
        pytest.param({"fixed": None}, [], id="removed"),
        pytest.param({"once": "p"}, ['spec.once: Invalid value: "p": once'], id="optional old value"),
        pytest.param({"never": "n"}, ['spec.never: Invalid value: "n": not new'], id="no old value"),
        pytest.param({"map": {"a": 4}}, ["spec.map[a]: Invalid value: 4: must grow"], id="value"),
        pytest.param({"map": {"n": 1}}, [], id="new value"),
        pytest.param(
            {"keyed": [{"k": "b", "v": 1}]}, ["spec.keyed[0].v: Invalid value: 1: must grow"], id="item with a key"
        ),
        pytest.param({"keyed": [{"k": "c", "v": 1}]}, [], id="new item"),
        pytest.param({"keyed": [{"k": "b", "v": 6}, {"k": "a", "v": 5}]}, [], id="order of keys"),
        pytest.param(
            {"keyed": [{"k": "a", "v": 9}, {"k": "b", "v": 6}]},
            ["spec.keyed: Invalid value: keyed changed"],
            id="keyed",
        ),
        pytest.param({"set": ["b", "a"]}, [], id="order of a set"),
        pytest.param({"set": ["b", "c"]}, ["spec.set: Invalid value: set changed"], id="set"),
        pytest.param({"set": ["b", "a", "c"]}, ["spec.set: Invalid value: set changed"], id="longer set"),
        pytest.param({"list": ["b", "a"]}, ["spec.list: Invalid value: list changed"], id="order of a list"),
        pytest.param({"plain": [{"n": 2}, {"n": 3}]}, [], id="no rules"),
        pytest.param({"count": 1}, [], id="nothing ruled"),
    ],
)
async def test_transition_rules(api: Any, patch: dict[str, Any], problems: list[str]) -> None:
    """Rules with `oldSelf` apply to updates, where there is an old value to compare with."""
    await api.ok("POST", CRDS, definition(CHANGING))
    await api.ok("POST", THINGS, thing(spec=STORED))
    status, answer = await api("PATCH", f"{THINGS}/t", {"spec": patch}, content_type=MERGE)
    assert (problems_in(answer["message"]) if status == 422 else []) == problems


async def test_old_value_that_does_not_fit(api: Any) -> None:
    """A value that an earlier schema let in counts as absent where it cannot be read."""
    await api.ok("POST", CRDS, definition(objects(a=TEXT, when=TEXT)))
    await api.ok("POST", THINGS, thing(spec={"a": "x", "when": "y"}))
    grows = {**INT, RULES: [GROW]}
    later = ruled({**TEXT, "format": "date-time"}, rule("self == oldSelf", message="immutable"))
    await api.ok("PUT", f"{CRDS}/things.example.com", definition(objects(a=grows, when=later)))
    patch = {"spec": {"a": 1, "when": "2026-01-01T00:00:00Z"}}
    await api.ok("PATCH", f"{THINGS}/t", patch, content_type=MERGE)
    patch = {"spec": {"a": 0, "when": "2026-01-01T00:00:00Z"}}
    message = (await api.refused("PATCH", f"{THINGS}/t", patch, content_type=MERGE))[2]
    assert problems_in(message) == ["spec.a: Invalid value: 0: must grow"]


async def test_rules_that_came_later(api: Any) -> None:
    """An unchanged value that breaks a new rule is a warning; a changed value is refused."""
    schema = objects(word=TEXT, count=INT)
    created = await api.ok("POST", CRDS, definition(schema))
    await api.ok("POST", THINGS, thing(spec={"word": "long"}))
    ruled_word = objects(word=ruled(TEXT, rule("size(self) < 3", message="too long")), count=INT)
    changed = definition(ruled_word)
    changed["metadata"] = created["metadata"]
    await api.ok("PUT", f"{CRDS}/things.example.com", {**changed, "metadata": {"name": "things.example.com"}})
    answer = await api.send("PATCH", f"{THINGS}/t", {"spec": {"count": 1}}, content_type=MERGE)
    assert answer.status == 200
    assert answer.headers["warning"] == '299 - "spec.word: Invalid value: \\"long\\": too long"'
    patch = {"spec": {"word": "longer"}}
    message = (await api.refused("PATCH", f"{THINGS}/t", patch, content_type=MERGE))[2]
    assert message.endswith('spec.word: Invalid value: "longer": too long')


# --- definitions --------------------------------------------------------------------------------------


def shown(text: str, **fields: str) -> str:
    """Return a rule as the real server shows it."""
    reason = f'"{fields["Reason"]}"' if "Reason" in fields else "null"
    return (
        f'Invalid value: {{"Rule":"{text}","Message":"{fields.get("Message", "")}",'
        f'"MessageExpression":"{fields.get("MessageExpression", "")}","Reason":{reason},'
        f'"FieldPath":"{fields.get("FieldPath", "")}","OptionalOldSelf":null}}'
    )


@pytest.mark.parametrize(
    ("schema", "field", "message"),
    [
        pytest.param(
            ruled(objects(a=INT), rule("self.b > 1")),
            f"{SPEC}.{RULES}[0].rule",
            shown("self.b \\u003e 1")
            + ": compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b > 1\n | ....^",
            id="undefined field",
        ),
        pytest.param(
            ruled(objects(a=INT), rule("self.a", message="m & <x>", reason="FieldValueForbidden", fieldPath=".a")),
            f"{SPEC}.{RULES}[0].rule",
            shown("self.a", Message="m \\u0026 \\u003cx\\u003e", Reason="FieldValueForbidden", FieldPath=".a")
            + ": cel expression must evaluate to a bool",
            id="no bool",
        ),
        pytest.param(
            objects(a=lists(ruled(objects(q=INT), rule("self.z == 1")))),
            f"{SPEC}.properties[a].items.{RULES}[0].rule",
            shown("self.z == 1")
            + ": compilation failed: ERROR: <input>:1:5: undefined field 'z'\n | self.z == 1\n | ....^",
            id="item",
        ),
        pytest.param(
            objects(m={"type": "object", "additionalProperties": ruled(INT, rule("self == 'x'"))}),
            f"{SPEC}.properties[m].additionalProperties.{RULES}[0].rule",
            shown("self == 'x'")
            + ": compilation failed: ERROR: <input>:1:6: found no matching overload for '_==_' applied to "
            "'(int, string)'\n | self == 'x'\n | .....^",
            id="value",
        ),
        pytest.param(
            ruled(objects(), rule(" ")), f"{SPEC}.{RULES}[0].rule", "Required value: rule is not specified", id="empty"
        ),
        pytest.param(
            ruled(objects(a=INT), rule("self.a > 1", messageExpression="self.a")),
            f"{SPEC}.{RULES}[0].messageExpression",
            shown("self.a \\u003e 1", MessageExpression="self.a") + ": messageExpression must evaluate to a string",
            id="message that is no text",
        ),
        pytest.param(
            ruled(objects(a=INT), rule("self.a > 1", messageExpression="self.b")),
            f"{SPEC}.{RULES}[0].messageExpression",
            shown("self.a \\u003e 1", MessageExpression="self.b")
            + ": messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b\n | ....^",
            id="message that does not compile",
        ),
        pytest.param(
            ruled(objects(a=INT), rule("self.a > 1", messageExpression=" ")),
            f"{SPEC}.{RULES}[0].messageExpression",
            "Required value: messageExpression must be non-empty if specified",
            id="blank expression",
        ),
        pytest.param(
            ruled(objects(a=INT), rule("self.a > 1", message=" ")),
            f"{SPEC}.{RULES}[0].message",
            'Invalid value: " ": must be non-empty if specified',
            id="blank message",
        ),
        pytest.param(
            ruled(objects(a=INT), rule("self.a > 1", message="a\nb")),
            f"{SPEC}.{RULES}[0].message",
            'Invalid value: "a\\nb": must not contain line breaks',
            id="message of two lines",
        ),
        pytest.param(
            ruled(objects(a=INT), rule("self.a\n> 1")),
            f"{SPEC}.{RULES}[0].message",
            "Required value: message must be specified if rule contains line breaks",
            id="rule of two lines",
        ),
        pytest.param(
            ruled(objects(a=INT), rule("self.a > 1", reason="Odd")),
            f"{SPEC}.{RULES}[0].reason",
            'Unsupported value: "Odd": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
            '"FieldValueInvalid", "FieldValueRequired"',
            id="reason",
        ),
        pytest.param(
            objects(a=lists(ruled(INT, rule("self == oldSelf")))),
            f"{SPEC}.properties[a].items.{RULES}[0].rule",
            'Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema '
            f"within {SPEC}.properties[a]",
            id="no old item",
        ),
        pytest.param(
            objects(a=ruled(INT, rule("self == 1", optionalOldSelf=True))),
            f"{SPEC}.properties[a].{RULES}[0].optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
            id="old value that is not used",
        ),
        pytest.param(
            objects(u=ruled({"x-kubernetes-preserve-unknown-fields": True}, rule("self == 1"))),
            f"{SPEC}.properties[u].{RULES}",
            "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: "
            "unable to convert structural schema to CEL declarations",
            id="no type",
        ),
    ],
)
async def test_definitions_with_bad_rules(api: Any, schema: Any, field: str, message: str) -> None:
    """A rule that cannot be used makes its definition invalid, in the words of the real server."""
    status, answer = await api("POST", CRDS, definition(schema))
    assert status == 422
    [cause] = answer["details"]["causes"]
    assert (cause["field"], cause["message"]) == (field, message)


@pytest.mark.parametrize(
    ("path", "problems"),
    [
        (".a", []),
        ("['b.c']", []),
        (".o['p']", []),
        (".m.x", []),
        (".m['x']", []),
        (".l", []),
        (".zz", ["must be a valid path"]),
        ("a", ["must be a valid path"]),
        (".l[0].z", ["must be a valid path"]),
        (" ", ["must be non-empty if specified", "must be a valid path"]),
        (".a\n", ["must not contain line breaks", "must be a valid path"]),
    ],
)
async def test_field_paths(api: Any, path: str, problems: list[str]) -> None:
    """A field path leads to a field of the schema, through maps, and not into lists."""
    values = {"type": "object", "additionalProperties": INT}
    schema = objects(**{"a": INT, "b.c": INT, "l": lists(objects(z=INT)), "m": values, "o": objects(p=INT)})
    checked = ruled(schema, rule("self.a > 1", fieldPath=path))
    status, answer = await api("POST", CRDS, definition(checked))
    found = [one["message"].rpartition(": ")[2] for one in answer["details"]["causes"]] if status == 422 else []
    assert found == problems


@pytest.mark.parametrize(("path", "field"), [("['b.c']", "spec.b.c"), (".m.x", "spec.m[x]"), (".o['p']", "spec.o.p")])
async def test_fields_that_paths_name(api: Any, path: str, field: str) -> None:
    """The error of a failed rule is at its field path."""
    values = {"type": "object", "additionalProperties": INT}
    schema = objects(**{"a": INT, "b.c": INT, "m": values, "o": objects(p=INT)})
    await api.ok("POST", CRDS, definition(ruled(schema, rule("self.a > 1", fieldPath=path))))
    assert (await api("POST", THINGS, thing(spec={"a": 1})))[1]["details"]["causes"][0]["field"] == field


async def test_rules_of_several_versions(api: Any) -> None:
    """Versions with one schema are named together, others each for itself."""
    bad = ruled(objects(a=INT), rule("self.b > 1"))

    async def fields(**versions: Any) -> list[str]:
        _, answer = await api("POST", CRDS, definition(bad, **versions))
        return [cause["field"] for cause in answer["details"]["causes"]]

    assert await fields(v2=bad) == [f"{SPEC}.{RULES}[0].rule"]
    other = ruled(objects(a=INT, c=INT), rule("self.b > 1"))
    assert await fields(v2=other) == [
        f"spec.versions[{index}].schema.openAPIV3Schema.properties[spec].{RULES}[0].rule" for index in (0, 1)
    ]


async def test_nothing_is_compiled_above_a_wrong_text(api: Any) -> None:
    """If a rule lacks its text, the rules of the schemas around it are not compiled; others are."""
    schema = objects(a=ruled(objects(b=ruled(INT, rule(""))), rule("self.zz == 1")), c=ruled(INT, rule("self == 'x'")))
    _, answer = await api("POST", CRDS, definition(ruled(schema, rule("self.zz == 1"))))
    fields = [cause["field"].removeprefix(f"{SPEC}.") for cause in answer["details"]["causes"]]
    assert fields == [f"properties[a].properties[b].{RULES}[0].rule", f"properties[c].{RULES}[0].rule"]


@pytest.mark.slow
def test_server_starts_without_the_expression_language() -> None:
    """The server imports `kube_cel` only for definitions that have rules."""
    code = "import sys, kube_testserver.cluster; sys.exit(any(name.startswith('kube_cel') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True)
