"""The engine `local`: every client in this process.

Clients step one after the other, unless the method says how to step many together (`client_steps`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from hopfed.errors import ArgumentError
from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome, answer, answers
from hopfed.federation.faults import Fault


@dataclass(frozen=True)
class LocalEngine:
    """Steps in process.

    Attributes
    ----------
    timeout : seconds a client may take; a step cannot be stopped here, so an answer that comes
        later than that is thrown away. None for no limit.

    Raises
    ------
    ArgumentError : a timeout of 0 or less.

    Examples
    --------
    >>> from hopfed.federation.contract import Context
    >>> class Double:
    ...     def client_step(self, state, down, context):
    ...         return state, {"twice": 2 * context.client}, {}
    >>> LocalEngine().step(Double(), [Call({}, {}, Context(0, 0, 0, client=3))])[0].message
    {'twice': 6}
    """

    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and self.timeout <= 0:
            raise ArgumentError("timeout", "above 0 seconds", self.timeout)

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        if self.timeout is None:
            return answers(method, calls)
        return [self._one(method, call) for call in calls]

    def _one(self, method: Method, call: Call) -> Outcome:
        began = time.monotonic()
        outcome = answer(method, call)
        if self.timeout is not None and time.monotonic() - began > self.timeout:
            return Outcome(fault=Fault.TIMED_OUT, reason=f"no answer in {self.timeout:g} s")
        return outcome
