"""Cost: prefer the nodes on which the pod costs least."""

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler import CycleState, Nodes, Pod, Reuse, ScorePlugin, SignFragment, SignPlugin
from pyscheduler.api import pod_requests
from pyscheduler.framework.scoring import default_normalize


def _check_prices(_args: object, _attribute: object, prices: Mapping[str, float]) -> None:
    for name, price in prices.items():
        if not 0 <= price <= 1_000_000:
            raise ValueError(f"prices[{name}] must be between 0 and 1000000, not {price:g}")


def _check_discounts(_args: object, _attribute: object, discounts: Mapping[str, float]) -> None:
    for name, discount in discounts.items():
        if not 0 <= discount <= 1:
            raise ValueError(f"discounts[{name}] must be a share between 0 and 1, not {discount:g}")


@attrs.frozen(kw_only=True)
class CostArgs:
    """Prices per hour by instance type, and discounts (0 to 1) by capacity type, as node labels name them."""

    prices: Mapping[str, float] = attrs.field(factory=dict, validator=_check_prices)
    discounts: Mapping[str, float] = attrs.field(factory=dict, validator=_check_discounts)
    unknown_price: float = attrs.field(default=10.0, validator=[attrs.validators.ge(0), attrs.validators.le(1_000_000)])
    type_label: str = "node.kubernetes.io/instance-type"
    capacity_label: str = "karpenter.sh/capacity-type"


class Cost(ScorePlugin, SignPlugin):
    """Score by price times the largest share of a resource of the node that the pod takes: cheapest is best."""

    args_type = CostArgs
    args: CostArgs
    # Labels and allocatable amounts of the node itself, and requests of the pod: nothing else has a part in the score.
    reuse = Reuse.WHILE_NODE_STAYS

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        args = self.args
        types, capacities = nodes.labels(args.type_label), nodes.labels(args.capacity_label)
        # A price per distinct type, spread over the nodes by indexing.
        prices = np.array([args.prices.get(text or "", args.unknown_price) for text in types.values])
        rates = np.array([1.0 - args.discounts.get(text or "", 0.0) for text in capacities.values])
        # A pod without requests still takes one of the places for pods.
        share = 1.0 / np.maximum(nodes.allowed_pods(), 1)
        for name, amount in pod_requests(pod).items():
            share = np.maximum(share, amount / np.maximum(nodes.allocatable(name), 1))
        cost = prices[types.ids] * rates[capacities.ids] * np.minimum(share, 1.0)
        return np.asarray(np.rint(cost * 1e9), dtype=np.int64)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        default_normalize(scores, reverse=True)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment("Cost/requests", tuple(sorted(pod_requests(pod).items()))),)
