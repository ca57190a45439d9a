"""The engine `local`: every client in this process.

Clients step one after the other, unless the method says how to step many together (`client_steps`).
"""

from __future__ import annotations

from collections.abc import Sequence

from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome, answers


class LocalEngine:
    """Steps in process.

    Examples
    --------
    >>> from hopfed.federation.contract import Context
    >>> class Double:
    ...     def client_step(self, state, down, context):
    ...         return state, {"twice": 2 * context.client}, {}
    >>> LocalEngine().step(Double(), [Call({}, {}, Context(0, 0, 0, client=3))])[0].message
    {'twice': 6}
    """

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        return answers(method, calls)
