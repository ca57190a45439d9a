"""Engines make the client steps of a round: here, in this process."""

from __future__ import annotations

from collections.abc import Sequence

from hopfed.errors import HopfedError
from hopfed.federation.contract import Call, Fault, Method, Outcome

__all__ = ["LocalEngine"]


class LocalEngine:
    """Engine in this process: client steps one by one, or all by the method's `client_steps`.

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
        """Outcomes in the order of `calls`; an error of a client is a fault, and not raised."""
        if hasattr(method, "client_steps"):
            try:
                return list(method.client_steps(calls))
            except HopfedError:
                raise
            except Exception as error:
                if len(calls) == 1:
                    return [_raised(error)]
                return [self.step(method, [call])[0] for call in calls]
        return [make_step(method, call) for call in calls]


def make_step(method: Method, call: Call) -> Outcome:
    """Make a client step as an engine, in this process; return its outcome, a fault for errors."""
    try:
        return Outcome(*method.client_step(call.state, call.down, call.context))
    except Exception as error:  # an error of a client concerns that client alone
        return _raised(error)


def _raised(error: Exception) -> Outcome:
    return Outcome(fault=Fault.RAISED, reason=f"{type(error).__name__}: {error}")
