"""RegistryLocality: images that are there cost nothing, others cost by registry and zone."""

import pytest

from pyscheduler import ConfigError
from pyscheduler.testing import check_plugin, make_pod
from registry_locality.plugin import RegistryLocality, names_on_nodes, registry_of

ZONE = "topology.kubernetes.io/zone"
EU, MIRROR = "registry.eu.example.com", "mirror.example.com:5000"
ARGS = {
    "registries": [{"host": EU, "cost": 10, "zoneCosts": {"eu": 1}}, {"host": MIRROR, "cost": 0}],
    "defaultCost": 5,
    "unknownImageMib": 100,
}


def scores(cluster, *images):
    """Return the plugin's scores by node for a pod with these images."""
    framework = cluster.framework(enable=[RegistryLocality], args={"RegistryLocality": ARGS})
    found = framework.run_score(make_pod("p", images=images))
    return {name: by_plugin["RegistryLocality"] for name, by_plugin in found.items()}


def test_pulls_from_the_registry_of_the_zone_are_cheap(pyscheduler_cluster):
    for name, labels in (("eu", {ZONE: "eu"}), ("us", {ZONE: "us"}), ("nowhere", {})):
        pyscheduler_cluster.add_node(name, labels=labels)
    assert scores(pyscheduler_cluster, f"{EU}/app:1") == {"eu": 90, "us": 0, "nowhere": 0}
    assert scores(pyscheduler_cluster, "nginx") == {"eu": 0, "us": 0, "nowhere": 0}
    assert scores(pyscheduler_cluster, f"{MIRROR}/app:1") == {"eu": 100, "us": 100, "nowhere": 100}


def test_an_image_that_is_there_need_not_be_pulled(pyscheduler_cluster):
    """The size that one node reports counts for the others: 400 MiB from far are worse than 100 MiB unknown."""
    big = {f"{EU}/big:1": 400 << 20}
    pyscheduler_cluster.add_node("has", labels={ZONE: "us"}, images=big)
    pyscheduler_cluster.add_node("close", labels={ZONE: "eu"})
    pyscheduler_cluster.add_node("far", labels={ZONE: "us"})
    assert scores(pyscheduler_cluster, f"{EU}/big:1") == {"has": 100, "close": 90, "far": 0}
    assert scores(pyscheduler_cluster, f"{EU}/big:1", f"{EU}/new:1") == {"has": 80, "close": 90, "far": 0}


def test_several_containers_with_one_image_pull_it_once(pyscheduler_cluster):
    pyscheduler_cluster.add_node("eu", labels={ZONE: "eu"})
    pyscheduler_cluster.add_node("us", labels={ZONE: "us"})
    once = scores(pyscheduler_cluster, f"{EU}/a:1", "b")
    assert scores(pyscheduler_cluster, f"{EU}/a:1", "b", f"{EU}/a:1", "b") == once == {"eu": 60, "us": 0}


async def test_the_pod_runs_where_its_image_is_close(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("us", labels={ZONE: "us"}, allocatable={"cpu": "64"})
    cluster.add_node("eu", labels={ZONE: "eu"})
    enabled = cluster.framework(
        enable=[RegistryLocality], disable=["NodeResourcesFit"], args={"RegistryLocality": ARGS}
    )
    assert not enabled.profile.cache_obstacles
    for number in range(3):
        result = await enabled.schedule(f"p{number}", images=[f"{EU}/app:1"], requests={"cpu": "1"})
        assert result.node == "eu"


@pytest.mark.parametrize(
    ("image", "host", "names"),
    [
        pytest.param("nginx", "docker.io", ["nginx:latest", "docker.io/library/nginx:latest"], id="short"),
        pytest.param("me/app:1", "docker.io", ["me/app:1", "docker.io/me/app:1"], id="user"),
        pytest.param("localhost/app", "localhost", ["localhost/app:latest"], id="localhost"),
        pytest.param("r.io:5000/a/b", "r.io:5000", ["r.io:5000/a/b:latest"], id="port"),
        pytest.param("r.io/a@sha256:0", "r.io", ["r.io/a@sha256:0"], id="digest"),
    ],
)
def test_names_of_images(image, host, names):
    assert (registry_of(image), list(names_on_nodes(image))) == (host, names)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param({"defaultCost": -1}, "defaultCost must be between", id="negative"),
        pytest.param({"registries": [{"cost": 1}]}, r"Required.*args\.registries\[0\]\.host", id="no host"),
        pytest.param(
            {"registries": [{"host": "h", "zoneCosts": {"eu": -1}}]}, r"zoneCosts\[eu\].*registries\[0\]", id="zone"
        ),
    ],
)
def test_args_are_checked(pyscheduler_cluster, args, message):
    with pytest.raises(ConfigError, match=message):
        pyscheduler_cluster.framework(enable=[RegistryLocality], args={"RegistryLocality": args})


def draw(rng, draft):
    """Give some nodes an image, and all a zone."""
    draft.node_labels[ZONE] = ["eu", "us"]
    draft.nodes += [{}, {"images": {f"{EU}/app:1": 400 << 20}}]
    draft.pods += [{"images": [f"{EU}/app:1"]}, {"images": ["nginx"]}]


def test_the_contract_of_plugins():
    check_plugin(RegistryLocality, ARGS, draw=draw)
