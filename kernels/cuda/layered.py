"""Updates of the layered memory on a device; `hopfed.kernels.layered` has the meaning.

An update is four launches for each piece of the sites: mixed coefficients (with energy and score
of the state), fields by cuBLAS, decisions, new coefficients by cuBLAS. Pieces are small enough for
the fields to stay in the second-level cache. The launches of one update are captured once as a
graph and replayed. Draws are those of the CPU; trajectories depart from its as `heatbath` says.

Coefficients are summed afresh at every update, so nothing drifts. A block stops on its own when it
cannot change any more; the CPU stops groups of blocks, so `updates` may be smaller here.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from hopfed.kernels.cuda.layered_run import LayeredRun
from hopfed.kernels.layered import LayeredUpdate
from hopfed.kernels.layout import TIE

LOOK_EVERY = 16  # updates between two looks at whether any block is still active


def layered_step(
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
    tie: float = TIE,
) -> LayeredUpdate:
    """Update all spins of all layers at once, `updates` times; see `hopfed.kernels.layered_step`.

    state (S, L, N) int8 of +-1, W (N, R) and cue are arrays of one device, and so is the result.
    """
    run = LayeredRun(**locals())
    with run.device.stream() as stream_of_its_own:  # on which one update is captured as a graph
        run.start()
        for update in range(updates):
            run.replay()
            looked = (update + 1) % LOOK_EVERY == 0 and run.may_stop(update)
            if looked and run.finished():
                break
        result = run.result()
        stream_of_its_own.synchronize()
    return result


def layered_sweep(
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
    tie: float = TIE,
) -> LayeredUpdate:
    """Visit the spins one at a time, `updates` times; see `hopfed.kernels.layered_sweep`."""
    run = LayeredRun(**locals())
    run.sweep()
    return run.result()
