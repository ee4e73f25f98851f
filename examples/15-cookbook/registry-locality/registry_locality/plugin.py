"""RegistryLocality: prefer nodes that have the pod's images, or can pull them from a close registry."""

from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler import CycleState, Handle, Nodes, Pod, Reuse, ScorePlugin, SignFragment, SignPlugin
from pyscheduler.framework.scoring import default_normalize

MIB = 1 << 20


def _check_costs(_args: object, _attribute: object, costs: Mapping[str, float]) -> None:
    for zone, cost in costs.items():
        if not 0 <= cost <= 1000:
            raise ValueError(f"zoneCosts[{zone}] must be between 0 and 1000, not {cost:g}")


def _check_cost(_args: object, attribute: "attrs.Attribute[float]", cost: float) -> None:
    if not 0 <= cost <= 1000:
        key = {"default_cost": "defaultCost"}.get(attribute.name, attribute.name)
        raise ValueError(f"{key} must be between 0 and 1000, not {cost:g}")


@attrs.frozen(kw_only=True)
class Registry:
    """A registry, and what it costs to pull a MiB from it: in some zones, and elsewhere."""

    host: str = attrs.field(validator=attrs.validators.min_len(1))
    cost: float = attrs.field(default=1.0, validator=_check_cost)
    zone_costs: Mapping[str, float] = attrs.field(factory=dict, validator=_check_costs)


@attrs.frozen(kw_only=True)
class RegistryLocalityArgs:
    """The registries, the cost of a MiB from any other, and the size of an image that no node has."""

    registries: tuple[Registry, ...] = ()
    default_cost: float = attrs.field(default=1.0, validator=_check_cost)
    unknown_image_mib: int = attrs.field(
        default=500, validator=[attrs.validators.ge(0), attrs.validators.le(1_000_000)]
    )
    zone_label: str = attrs.field(default="topology.kubernetes.io/zone", validator=attrs.validators.min_len(1))


class RegistryLocality(ScorePlugin, SignPlugin):
    """Score nodes by what it costs to pull the images that they lack; the least is best."""

    args_type = RegistryLocalityArgs
    args: RegistryLocalityArgs
    # The size of an image that a node lacks is known from other nodes, so any node may change the score of this one.
    reuse = Reuse.WHILE_NODES_STAY

    def __init__(self, args: RegistryLocalityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.registries = {registry.host: registry for registry in args.registries}

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        zones = nodes.labels(self.args.zone_label)
        total = np.zeros(len(nodes), dtype=np.float64)
        for image in images(pod):
            found = next(filter(None, map(nodes.image, names_on_nodes(image))), None)
            size = self.args.unknown_image_mib if found is None else found.size / MIB
            pull = size * self.costs(registry_of(image), zones.values)[zones.ids]
            if found is not None:
                pull[found.rows] = 0
            total += pull
        return np.asarray(np.rint(1000 * total), dtype=np.int64)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        default_normalize(scores, reverse=True)

    def costs(self, host: str, zones: Sequence[str | None]) -> NDArray[np.float64]:
        """Return float64 by id of the zone label: the cost of a MiB from a registry."""
        registry = self.registries.get(host)
        if registry is None:
            return np.full(len(zones), self.args.default_cost)
        return np.array([registry.zone_costs.get(zone or "", registry.cost) for zone in zones])

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment("RegistryLocality/images", images(pod)),)


def images(pod: Pod) -> tuple[str, ...]:
    """Return the images that a pod needs, each once, sorted."""

    def used() -> Iterator[str]:
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            yield container.image
        for volume in pod.spec.volumes:
            if volume.image is not None:
                yield volume.image.reference

    return tuple(sorted(set(used())))


def registry_of(image: str) -> str:
    """Return the host of an image name; `docker.io` if it names none."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def names_on_nodes(image: str) -> Iterator[str]:
    """Yield the names under which nodes may list an image: as it is written, then in full."""
    tagged = image if "@" in image or image.rfind(":") > image.rfind("/") else f"{image}:latest"
    yield tagged
    if registry_of(image) == "docker.io" and not image.startswith("docker.io/"):
        yield f"docker.io/{tagged}" if "/" in image else f"docker.io/library/{tagged}"
