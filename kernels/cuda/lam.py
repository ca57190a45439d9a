"""Updates of the layered memory on a device; `hopfed.kernels.lam` has the meaning.

An update is four launches for each piece of the sites: mixed coefficients (with energy and score
of the state), fields by cuBLAS, decisions, new coefficients by cuBLAS. Pieces are small enough for
the fields to stay in the second-level cache. The launches of one update are captured once as a
graph and replayed. Draws are those of the CPU; trajectories depart from its as `heatbath` says.

Coefficients are summed afresh at every update, so nothing drifts. A block stops on its own when it
cannot change any more; the CPU stops groups of blocks, so `updates` may be smaller here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError
from hopfed.kernels.cuda.device import device_of
from hopfed.kernels.cuda.lam_run import LamRun
from hopfed.kernels.lam import LamUpdate

LOOK_EVERY = 16  # updates between two looks at whether any block is still active


def lam_step(
    state: Any,
    W: Any,
    *,
    beta: ArrayLike,
    noise: ArrayLike = 1.0,
    updates: int = 1,
    coupling: str = "quadratic",
    repulsion: float = 0.2,
    field: float = 0.0,
    cue: Any = None,
    self_field: bool = False,
    seed: int = 0,
    stream: int = 0,
    first_update: int = 0,
    first_block: int = 0,
) -> LamUpdate:
    """Update all spins of all layers at once, `updates` times; see `hopfed.kernels.lam_step`.

    state (S, L, N) int8 of +-1, W (N, R) and cue are arrays of one device, and so is the result.
    """
    return _steps(_prepare(**locals()))[0]


def lam_step_many(states: Sequence[Any], factors: Sequence[Any], **options: Any) -> list[LamUpdate]:
    """Run `lam_step` on several operators at once, each on a stream of its own.

    Parameters
    ----------
    states, factors : a state (S_g, L, N_g) and a factor W (N_g, R_g) for each operator.
    options : those of `lam_step`, for all. The blocks are numbered through: operator g draws as
        ``lam_step(..., first_block=first_block + S_0 + ... + S_{g-1})`` would.
    """
    if len(states) != len(factors) or len({x.shape[1] for x in states if x.ndim == 3}) > 1:
        raise ArgumentError("states", "as many as factors, of one number of layers", len(states))
    block, runs = options.pop("first_block", 0), []
    with ExitStack() as streams:
        for state, W in zip(states, factors, strict=True):
            device = device_of("state", state)
            current = streams.enter_context(device.stream())
            runs += _prepare(state=state, W=W, first_block=block, own=current, **options)
            block += state.shape[0]
        return _steps(runs)


def lam_sweep(
    state: Any,
    W: Any,
    *,
    beta: ArrayLike,
    noise: ArrayLike = 1.0,
    updates: int = 1,
    coupling: str = "quadratic",
    repulsion: float = 0.2,
    field: float = 0.0,
    cue: Any = None,
    self_field: bool = False,
    seed: int = 0,
    stream: int = 0,
    first_update: int = 0,
    first_block: int = 0,
) -> LamUpdate:
    """Visit the spins one at a time, `updates` times; see `hopfed.kernels.lam_sweep`."""
    (run,) = _prepare(**locals())
    run.sweep()
    return run.result()


def _prepare(own: Any = None, **arguments: Any) -> list[LamRun]:
    return [LamRun(own=own, **arguments)]


def _steps(runs: list[LamRun]) -> list[LamUpdate]:
    """Replay one update after the other of all runs, until all are done."""
    with ExitStack() as stack:
        for run in runs:
            if run.own is None:
                run.own = stack.enter_context(run.device.stream())
            run.start()
        for update in range(max((run.updates for run in runs), default=0)):
            for run in runs:
                run.replay()
            looked = (update + 1) % LOOK_EVERY == 0 and any(run.may_stop(update) for run in runs)
            if looked and all(run.finished() for run in runs):
                break
        return [run.result() for run in runs]
