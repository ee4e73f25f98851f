"""CheapestNode: prefer the node that costs least, as its label says."""

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler import CycleState, Nodes, Pod, ScorePlugin
from pyscheduler.framework.scoring import default_normalize


@attrs.frozen(kw_only=True)
class CheapestNodeArgs:
    """The plugin's `pluginConfig` args; in the file they are `priceLabel` and `unpriced`."""

    price_label: str = "example.com/hourly-price"
    unpriced: float = 100.0  # assumed price of a node without a (readable) price


class CheapestNode(ScorePlugin):
    """Score feasible nodes by price: 0 gets 100, the highest price gets 0."""

    args_type = CheapestNodeArgs
    args: CheapestNodeArgs

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        label = nodes.labels(self.args.price_label)
        # Nodes with the same price share one value, and each value is read once: no loop over nodes.
        prices = np.array([self.milli_price(text) for text in label.values], dtype=np.int64)
        return prices[label.ids]

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        """Turn prices into scores from 0 to 100, in place."""
        default_normalize(scores, reverse=True)

    def milli_price(self, text: str | None) -> int:
        """Return a price in thousandths."""
        try:
            price = float(text or "none")
            return int(min(price, 1e6) * 1000)
        except ValueError:
            return int(self.args.unpriced * 1000)
