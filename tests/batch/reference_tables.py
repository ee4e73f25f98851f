"""`python -m tests.batch.reference_tables`: write the tables about batch profiles that follow from code and recordings.

A table stands between the comments `<!-- NAME -->` and `<!-- end -->`. What the code does not say, the default and the
meaning of each argument, is written here; a test fails if an argument lacks its row.
"""

from __future__ import annotations

import gzip
import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from pyscheduler_batch.preset import Preset
from pyscheduler_batch.systems import presets
from pyscheduler_lab.simulation.batch_cases.preset_import import system_of
from tests.batch.peer_cases import DIFFERENCES, SYSTEMS

PAGE: Final = Path(__file__).parents[2] / "docs/reference/batch.md"
PARITY: Final = Path(__file__).parents[2] / "docs/reference/parity.md"
_SYSTEMS: Final = {"kai": "KAI", "volcano": "Volcano", "kube-batch": "kube-batch"}
_END: Final = "<!-- end -->"
_SPEED = "accepted without effect: in Volcano it only saves time"
_FROM_FILE: Final = "if `--config` reads the file; no effect in the args of `Batch`"


def _weights(**weights: int) -> list[tuple[str, str, str]]:
    """Return the rows of arguments of `nodeorder`, by the defaults of the weights."""
    text = "the weight of a score plugin of the profile, if `--config` reads the file; no effect in the args of `Batch`"
    return [(f"{name}.weight", str(weight), text) for name, weight in weights.items()]


#: By preset and action or policy, its arguments: name, default, meaning.
ARGUMENTS: Final[dict[tuple[str, str], list[tuple[str, str, str]]]] = {
    ("kai", "proportion"): [
        (
            "relcaimerSaturationMultiplier",
            "1",
            (
                "(spelled so in KAI) beyond its fair share, a queue may reclaim only while its saturation (what it "
                "would hold, divided by its fair share), times this number, stays below that of the other queue; at "
                "least 1. Other spellings: `reclaimerSaturationMultiplier`, `reclaimerUtilizationMultiplier`"
            ),
        ),
        ("kValue", "1", "how much past use lowers a share, if `usageDBConfig` is set"),
    ],
    ("kai", "minruntime"): [
        ("defaultPreemptMinRuntime", "0s", "protection from `preempt` after the start, where no queue sets it"),
        ("defaultReclaimMinRuntime", "0s", "protection from `reclaim` after the start, where no queue sets it"),
        (
            "reclaimResolveMethod",
            "lca",
            (
                "where the search for `reclaimMinRuntime` starts. `queue`: at the victim's queue. `lca`: at the child "
                "of the common ancestor of both queues, on the victim's side. From there it goes up to the first queue "
                "that sets it"
            ),
        ),
    ],
    ("kai", "nodeplacement"): [
        ("cpu", "binpack", "for tasks without GPUs: `binpack` fills nodes, `spread` prefers empty ones"),
        ("gpu", "binpack", "the same for tasks with GPUs"),
    ],
    ("volcano", "allocate"): [("predicateErrorCacheEnable", "", _SPEED)],
    ("volcano", "backfill"): [("predicateErrorCacheEnable", "", _SPEED)],
    ("volcano", "reclaim"): [("predicateErrorCacheEnable", "", _SPEED)],
    ("volcano", "preempt"): [
        ("predicateErrorCacheEnable", "", _SPEED),
        (
            "enableTopologyAwarePreemption",
            "false",
            (
                "compare the nodes where evictions make room: the node whose most important victim has the lowest "
                "priority is taken; then count the sum of priorities, the number of victims, and when they started. "
                "Victims that can stay are spared. A node without victims does not count"
            ),
        ),
        (
            "minCandidateNodesPercentage",
            "10",
            "how many nodes are compared, as a percentage of the nodes that evictions may make acceptable",
        ),
        ("minCandidateNodesAbsolute", "1", "the least number of nodes that are compared"),
        ("maxCandidateNodesAbsolute", "100", "the greatest number of nodes that are compared"),
        ("topologyAwarePreemptWorkerNum", "", "accepted without effect: nodes are tried one by one"),
    ],
    ("volcano", "overcommit"): [
        ("overcommit-factor", "1.2", "the size that the cluster is assumed to have, as a multiple; below 1 it is 1.2")
    ],
    ("volcano", "predicates"): [
        (
            "predicate.*",
            "",
            (
                "`predicate.NodeAffinityEnable: false` removes the filter from the profile, if `--config` reads the "
                "file; no effect in the args of `Batch`. The same holds for `NodePorts`, `TaintToleration`, "
                "`PodAffinity`, `NodeVolumeLimits`, `VolumeZone`, `PodTopologySpread`, `VolumeBinding` and "
                "`DynamicResourceAllocation`. `CacheEnable` has no effect: in Volcano it only saves time"
            ),
        ),
        (
            "volumebinding.bindTimeoutSeconds",
            "600",
            f"becomes an arg of VolumeBinding, {_FROM_FILE}",
        ),
        ("volumebinding.weight", "1", f"the weight of the scores of VolumeBinding, {_FROM_FILE}"),
        (
            "volumebinding.shape",
            "",
            (
                f"becomes an arg of VolumeBinding, {_FROM_FILE}, and only with the feature gate "
                "`StorageCapacityScoring`, as in Volcano"
            ),
        ),
        ("dynamicresources.filterTimeoutSeconds", "10", f"becomes an arg of DynamicResources, {_FROM_FILE}"),
    ],
    ("volcano", "nodeorder"): _weights(
        nodeaffinity=2,
        podaffinity=2,
        leastrequested=1,
        balancedresource=1,
        mostrequested=0,
        tainttoleration=3,
        imagelocality=1,
        podtopologyspread=2,
    ),
    ("volcano", "binpack"): [
        ("binpack.weight", "1", "the weight of the score; 0 switches the policy off"),
        ("binpack.cpu", "1", "the weight of CPU in the score; a negative weight counts as 1"),
        ("binpack.memory", "1", "the weight of memory"),
        ("binpack.resources", "", "further resources that count, with commas between them"),
        ("binpack.resources.*", "1", "the weight of one of these, as in `binpack.resources.nvidia.com/gpu`"),
    ],
    ("volcano", "network-topology-aware"): [
        ("weight", "1", "the weight of the scores; a negative weight counts as 1"),
        (
            "hypernode.*",
            "",
            (
                "`hypernode.binpack.cpu`, `.memory`, `.resources` and `.resources.NAME` are the weights of resources "
                "when HyperNodes are filled, 1 by default. `hypernode.binpack.normal-pod.enable` (true): pods without "
                "a topology fill HyperNodes as well, and each tier counts `hypernode.binpack.normal-pod.fading` (0.8) "
                "times as much as the one below. `hypernode.gradient.evict.max-hypernodes` has no effect: it is for "
                "actions that do not exist here"
            ),
        ),
    ],
    ("volcano", "capacity"): [
        (
            "ancestorReclaimLevel",
            "0",
            (
                "how many queues above a queue take part in `reclaim`. 0: a queue may reclaim if it is below its own "
                "`deserved`, and evict from queues above theirs. 1: it suffices that its parent is below `deserved`; "
                "the victim's parent, if it is another queue, must be above, too. `root` does not take part"
            ),
        ),
        (
            "capacity.DynamicResourceAllocationEnable",
            "true",
            (
                "whether limits on devices count: `deviceclass/NAME` in `capability` is the number of devices that "
                "the claims of a queue may request. A claim counts once, however many pods share it"
            ),
        ),
        (
            "capacity.DRAConsumableCapacityEnable",
            "the feature gate `DRAConsumableCapacity`",
            "whether `DIMENSION.deviceclass/NAME` limits what claims request of shared devices, such as memory",
        ),
    ],
    ("volcano", "sla"): [
        ("sla-waiting-time", "none", "how long a job waits at most to be enqueued, where its group does not say")
    ],
    ("kube-batch", "predicates"): [
        (
            "predicate.MemoryPressureEnable",
            "false",
            "whether nodes under this pressure take no pods that request neither CPU nor memory",
        ),
        ("predicate.DiskPressureEnable", "false", "whether nodes under this pressure take no pods"),
        ("predicate.PIDPressureEnable", "false", "whether nodes under this pressure take no pods"),
    ],
    ("kube-batch", "nodeorder"): _weights(nodeaffinity=1, podaffinity=1, leastrequested=1, balancedresource=1),
}


def action_table() -> str:
    """Return the actions of each preset: whether they run by default, what they do, and where the rule is from."""
    rows = []
    for preset in presets().values():
        for name, target in system_of(preset.name).actions.items():
            default = "yes" if name in preset.actions else ""
            rows.append((_SYSTEMS[preset.name], f"`{name}`", default, *_said(name, target)))
    return table(("preset", "action", "default", "what it does", "source"), rows)


def policy_table() -> str:
    """Return the policies of each preset: the tier in which they are by default, what they do, and their source."""
    rows = []
    for preset in presets().values():
        tiers = {text.split()[0]: str(number) for number, tier in enumerate(preset.tiers, 1) for text in tier}
        for name, target in sorted(system_of(preset.name).policies.items()):
            rows.append((_SYSTEMS[preset.name], f"`{name}`", tiers.get(name, ""), *_said(name, target)))
    return table(("preset", "policy", "tier", "what it does", "source"), rows)


def argument_table() -> str:
    """Return the arguments of the actions and policies that exist."""
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for (preset, owner), arguments in ARGUMENTS.items():
        for name, default, meaning in arguments:
            rows.setdefault((_SYSTEMS[preset], f"`{owner}`", default, meaning), []).append(name)
    lines = [(preset, owner, _names(names), default, text) for (preset, owner, default, text), names in rows.items()]
    return table(("preset", "of", "argument", "default", "meaning"), lines)


def missing_table() -> str:
    """Return the names that each preset knows, and that a configuration cannot use yet."""
    rows = []
    for preset in presets().values():
        actions, policies = missing_names(preset)
        if actions or policies:
            rows.append((_SYSTEMS[preset.name], _names(actions), _names(policies)))
    return table(("preset", "actions", "policies"), rows)


def missing_names(preset: Preset) -> tuple[list[str], list[str]]:
    """Return the actions and the policies that a configuration may name, and that do not exist."""
    tables = system_of(preset.name)
    policies = [name for name in preset.known_policies if name not in tables.policies]
    return [name for name in preset.known_actions if name not in tables.actions], policies


def known_arguments() -> Iterator[tuple[str, str, str]]:
    """Yield preset, owner and name of each argument of the actions and policies that exist."""
    for preset in presets().values():
        tables = system_of(preset.name)
        for owners, known in ((tables.actions, preset.known_actions), (tables.policies, preset.known_policies)):
            for owner in owners:
                yield from ((preset.name, owner, name) for name in known.get(owner, ()))


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows)])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _said(owner: str, target: str) -> tuple[str, str]:
    """Return the first paragraph of a class's docstring, and the source that its module names for it."""
    module, _, name = target.partition(":")
    imported = import_module(module)
    text, about = inspect.getdoc(getattr(imported, name)) or "", inspect.getdoc(imported) or ""
    first = " ".join(text.partition("\n\n")[0].split()).rstrip(".")
    found = re.search(r"Source:\s+(.+?)\.(?:\s|$)", about, re.DOTALL)
    return first, _source(" ".join(found[1].split()) if found else "", owner)


def _source(text: str, owner: str) -> str:
    """Return the source of one action or policy; a module with several of them names the sources of all."""
    system, _, rest = text.replace("KAI-Scheduler", "KAI").replace(",", "", 1).partition(" ")
    if "of the same names" in rest:
        return f"{system} `plugins/{owner}`"
    own = [path for path in re.findall(r"`[^`]+`", rest) if path.strip("`").rpartition("/")[2] == owner]
    return f"{system} {own[0]}" if own else f"{system} {rest}"


def recorded_table() -> str:
    """Return how many cycles were recorded by system and family; tests prove that each of them is decided alike."""
    rows, total = [], 0
    for folder, system in (("vectors_kai", "KAI"), ("vectors_volcano", "Volcano")):
        for path in sorted((Path(__file__).parent / folder).glob("*.jsonl.gz")):
            count = len(gzip.decompress(path.read_bytes()).splitlines())
            family = path.name.removesuffix(".jsonl.gz").partition("-")[2]
            rows.append((system, f"`{family}`", str(count), str(count)))
            total += count
    rows.append(("all", "", f"{total:,}", f"{total:,}"))
    return table(("system", "family", "cases", "equal in every stable field"), rows)


def peer_table() -> str:
    """Return how many tests of the peers are decided alike."""
    rows = []
    for system, title in (("kai", "KAI"), ("volcano", "Volcano")):
        differing = sum(name.startswith(f"{system}-") for name in DIFFERENCES)
        rows.append((title, str(SYSTEMS[system]), str(SYSTEMS[system] - differing)))
    return table(("system", "cases", "decided alike"), rows)


def peer_differences() -> str:
    """Return the tests of the peers that are decided differently, and why."""
    return table(("case", "here"), [(f"`{name}`", why) for name, why in DIFFERENCES.items()])


#: By page, what makes each of its tables.
TABLES: Final = {
    PAGE: {
        "actions": action_table,
        "policies": policy_table,
        "arguments": argument_table,
        "missing names": missing_table,
    },
    PARITY: {
        "recorded batch cycles": recorded_table,
        "tests of the peers": peer_table,
        "tests of the peers that differ": peer_differences,
    },
}


def written(page: Path) -> str:
    """Return the text of a page with its tables as they follow from the code."""
    content = page.read_text(encoding="utf-8")
    for name, make in TABLES[page].items():
        head, text = f"<!-- {name} -->\n", make()
        pattern = re.compile(f"{re.escape(head)}.*?{_END}", re.DOTALL)
        content, count = pattern.subn(lambda _, text=text, head=head: f"{head}\n{text}\n\n{_END}", content)
        if count != 1:
            raise ValueError(f"the page has {count} places for the table {name}")
    return content


if __name__ == "__main__":
    for each in TABLES:
        each.write_text(written(each), encoding="utf-8")
