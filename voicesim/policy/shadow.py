"""Shadow policies: they decide about the same requests as the policy in charge, and nobody acts.

What they see is the state that the policy in charge has brought about, as in a deployment that
mirrors its traffic (Envoy, request_mirror_policies:
https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto);
in the state that a shadow would have made itself it might decide otherwise.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from voicesim.policy.view import Decide

COLUMNS = ("row", "attempt", "did", "replica", "would", "would_replica")


class Shadows:
    """A decision with others beside it that are only written down."""

    def __init__(self, in_charge: Decide, others: Mapping[str, Decide]):
        self._in_charge, self._others = in_charge, others
        self._times: list[float] = []
        self._rows: dict[str, list[tuple[int, ...]]] = {name: [] for name in others}

    def __call__(self, view: Any) -> tuple[int, int]:
        """The decision of the policy in charge."""
        would = {name: decide(view) for name, decide in self._others.items()}
        action, g = self._in_charge(view)
        asks = view.request()
        self._times.append(float(view.now))
        for name, (other, h) in would.items():
            self._rows[name].append((asks.utterance, asks.attempt, action, g, other, h))
        return action, g

    def tables(self, first: np.ndarray) -> dict[str, pd.DataFrame]:
        """One row per request, by shadow: when, whose (session, utterance in it, attempt), what was
        done and where, what would have been; actions as in voicesim.policy.admission.

        first: int64[S + 1], the tape's.
        """
        found = {}
        for name, rows in self._rows.items():
            table = pd.DataFrame(np.array(rows, np.int64).reshape(-1, 6), columns=list(COLUMNS))
            row = table.pop("row").to_numpy()
            session = np.searchsorted(first, row, side="right") - 1
            table.insert(0, "t_s", self._times)
            table.insert(1, "session", session)
            table.insert(2, "utterance", row - first[session])
            found[name] = table
        return found
