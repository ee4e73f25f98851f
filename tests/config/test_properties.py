"""Whatever is read is shown so that it reads back the same, and nothing that is read can do worse than be refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from pyscheduler.config.dump import dump, to_data
from pyscheduler.config.fields import fields_of
from pyscheduler.config.load import loads
from pyscheduler.config.profiles import profiles
from pyscheduler.config.types import API_VERSION, KIND, Configuration, Extender, Plugins, SchedulerProfile
from pyscheduler.config.yaml_text import read, resolve
from pyscheduler.framework import ConfigError
from pyscheduler.framework.in_tree_args import IN_TREE_ARGS

DEFAULT_PLUGINS = ["NodeName", "PrioritySort", "NodeAffinity", "NodeResourcesFit", "DefaultPreemption", "VolumeBinding"]

# Text that a YAML file can hold: no surrogates, no control characters.
texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12
) | st.sampled_from(
    [
        "y",
        "no",
        "1e3",
        "010",
        "0x1",
        "1:30",
        "2001-01-01",
        "~",
        "<<",
        "=",
        ".inf",
        "-",
        "#a",
        " a",
        "a ",
        "a: b",
        "\ufeffa",
    ]
)
#: Plugins that are gone are refused by name; Hypothesis draws texts from our own code, too.
GONE = {"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"}
names = texts.filter(lambda name: name not in GONE) | st.sampled_from(DEFAULT_PLUGINS)
entries = st.fixed_dictionaries({"name": names}, optional={"weight": st.integers(-(2**31), 2**31 - 1)})
disabled = st.lists(st.fixed_dictionaries({"name": names | st.just("*")}), max_size=3)
# More than one enabled queue sort plugin is refused.
plugin_sets = st.fixed_dictionaries({}, optional={"enabled": st.lists(entries, max_size=4), "disabled": disabled})
points = [key for key in fields_of(Plugins) if key != "queueSort"]
plugins = st.dictionaries(st.sampled_from(points), plugin_sets, max_size=4)
durations = st.integers(1, 10**15).map(lambda nanoseconds: f"{nanoseconds}ns")
raw_args = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(-1e9, 1e9) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
plugin_configs = st.one_of(
    st.fixed_dictionaries({"name": texts}, optional={"args": raw_args | st.none()}),
    st.builds(
        lambda percentage, absolute: {
            "name": "DefaultPreemption",
            "args": {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute},
        },
        st.integers(0, 100),
        st.integers(1, 10**6),
    ),
    st.builds(
        lambda filtering: {"name": "DynamicResources", "args": {"filterTimeout": filtering}},
        durations,
    ),
)
profile_lists = st.lists(
    st.fixed_dictionaries(
        {"schedulerName": texts},
        optional={
            "percentageOfNodesToScore": st.integers(0, 100),
            "plugins": plugins,
            "pluginConfig": st.lists(plugin_configs, max_size=4, unique_by=lambda config: config["name"]),
        },
    ),
    max_size=3,
    unique_by=lambda profile: profile["schedulerName"],
)
documents = st.fixed_dictionaries(
    {"apiVersion": st.just(API_VERSION), "kind": st.just(KIND)},
    optional={
        "parallelism": st.integers(1, 2**31 - 1),
        "leaderElection": st.fixed_dictionaries(
            {}, optional={"leaderElect": st.just(False), "leaseDuration": durations, "resourceName": texts}
        ).filter(lambda election: "leaderElect" in election or "leaseDuration" not in election),
        "clientConnection": st.fixed_dictionaries(
            {},
            optional={"qps": st.floats(-1e6, 1e6, width=32), "burst": st.integers(0, 2**31 - 1), "kubeconfig": texts},
        ),
        "enableProfiling": st.booleans(),
        "profiles": profile_lists,
        "extenders": st.lists(
            st.fixed_dictionaries(
                {"urlPrefix": texts}, optional={"httpTimeout": durations, "enableHTTPS": st.booleans()}
            ),
            max_size=2,
        ),
    },
)


def as_text(document: object) -> str:
    """Return a document as JSON, which is YAML."""
    return json.dumps(document, ensure_ascii=False)


@pytest.mark.slow
@given(documents)
def test_output_reads_back_as_the_same_configuration(document: dict[str, object]) -> None:
    """As YAML and as JSON; and showing it again changes nothing."""
    config = loads(as_text(document))
    shown = dump(config)
    assert loads(shown) == config
    assert dump(loads(shown)) == shown
    assert loads(as_text(to_data(config))) == config


@given(texts)
def test_shown_text_is_read_as_text(text: str) -> None:
    """A name that looks like a number or a boolean stays a name."""
    config = loads(as_text({"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": text}]}))
    assert loads(dump(config)).profiles[0].scheduler_name == text


keys = st.sampled_from(
    sorted(
        {
            *(key for kind in (Configuration, SchedulerProfile, Extender, Plugins) for key in fields_of(kind)),
            *(key for kind in IN_TREE_ARGS.values() for key in fields_of(kind)),
            *("enabled", "disabled", "name", "args", "kind", "apiVersion", "weight", "shape", "resources", "type"),
        }
    )
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
anything = st.recursive(
    scalars | st.sampled_from([*IN_TREE_ARGS, "5s"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | texts, inner, max_size=5),
    max_leaves=20,
)
config_entries = st.fixed_dictionaries({"name": st.sampled_from(sorted(IN_TREE_ARGS)), "args": anything})
odd_documents = st.dictionaries(
    keys,
    anything | st.lists(st.fixed_dictionaries({}, optional={"pluginConfig": st.lists(config_entries)})),
    max_size=5,
)


@pytest.mark.slow
@given(odd_documents)
def test_any_document_is_read_or_rejected(document: dict[str, object]) -> None:
    """Each mistake is a line with a path; nothing else is ever raised."""
    problems: tuple[str, ...] = ()
    try:
        profiles(loads(as_text({**document, "apiVersion": API_VERSION, "kind": KIND})), lambda _: None)
    except ConfigError as error:
        problems = error.problems or ("no problem told",)
    assert [problem for problem in problems if " @ $" not in problem or len(problem.splitlines()) != 1] == []


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@,?<~ \n\t01.e_xyé\x00\ufeff"), max_size=60))
def test_any_text_is_read_or_rejected(text: str) -> None:
    """A text is read, or refused in one line that says where."""
    problems: tuple[str, ...] = ()
    try:
        read(text)
    except ConfigError as error:
        problems = error.problems or ("no problem told",)
    assert [problem for problem in problems if not problem.startswith("line ") or len(problem.splitlines()) != 1] == []


@given(st.text(alphabet=st.sampled_from("+-.0123456789_eExXobaf:"), min_size=1, max_size=12))
def test_any_scalar_resolves(text: str) -> None:
    """To a number where it is one, to itself otherwise."""
    value = resolve(text)
    assert isinstance(value, (int, float)) or value == text
