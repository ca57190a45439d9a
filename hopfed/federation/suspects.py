"""Which message makes a step of the server fail, so that the round goes on without its sender."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hopfed.federation.contract import Context, Method, Metrics, State
from hopfed.federation.messages import Message, as_message, not_finite

Step = tuple[State, Mapping[int, Message], Metrics]
Answer = Callable[[Mapping[int, Message]], Step]


def guarded(method: Method, state: State, context: Context) -> Answer:
    """Return the step of the server, which fails if what it answers is not finite.

    Numbers that overflow on the way are no error by themselves.
    """

    def step(heard: Mapping[int, Message]) -> Step:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            after, answers, metrics = method.server_step(state, heard, context)
        down = {c: as_message(message) for c, message in answers.items()}
        for message in down.values():
            if complaint := not_finite(message):
                raise FloatingPointError(f"in the server's answer {complaint}")
        return after, down, metrics

    return step


def usable(
    answer: Answer, messages: Mapping[int, Message]
) -> tuple[dict[int, Message], Step, dict[int, Exception]]:
    """Answer as many of the `messages` as can be answered.

    First those messages are left out that fail alone, which halving finds, unless all do. If the
    others still fail together, one is left out without which they succeed. Where there is none,
    the error is our own.
    """
    first = _attempt(answer, messages)
    if not isinstance(first, Exception):
        return dict(messages), first, {}
    culprits = _alone(answer, messages, first)
    if len(culprits) == len(messages) > 1:
        culprits = {}
    useful = {c: m for c, m in messages.items() if c not in culprits}
    found = _attempt(answer, useful)
    if not isinstance(found, Exception):
        return useful, found, culprits
    for c in useful:
        others = {other: m for other, m in useful.items() if other != c}
        without = _attempt(answer, others)
        if not isinstance(without, Exception):
            return others, without, culprits | {c: found}
    raise first


def _alone(
    answer: Answer, messages: Mapping[int, Message], error: Exception
) -> dict[int, Exception]:
    """Messages of a group that failed with `error` that fail by themselves."""
    if len(messages) <= 1:
        return dict.fromkeys(messages, error)
    clients, culprits = list(messages), dict[int, Exception]()
    for half in (clients[: len(clients) // 2], clients[len(clients) // 2 :]):
        group = {c: messages[c] for c in half}
        found = _attempt(answer, group)
        if isinstance(found, Exception):
            culprits |= _alone(answer, group, found)
    return culprits


def _attempt(answer: Answer, messages: Mapping[int, Message]) -> Step | Exception:
    try:
        return answer(messages)
    except Exception as error:  # whatever it is, it may be the work of one client
        return error
