"""Dask: the module, if it is installed, and clients for local or remote workers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from tempfile import TemporaryDirectory
from typing import Any

from hopfed.errors import ArgumentError, BackendError, safe_line

LOCAL = "local"
PATIENCE = 20  # seconds for a scheduler to answer, and for workers to end


def import_dask() -> Any:
    """Import Dask: return the module `dask`, with `distributed` beside it."""
    try:
        import cryptography  # noqa: F401  (for the keys of local workers)
        import dask
        import distributed  # noqa: F401  (which its workers need)
    except ImportError as error:
        raise BackendError(
            f"{error.name or 'dask'} is not installed: pip install 'hopfed[dask]'"
        ) from None
    return dask


@contextmanager
def cluster(address: str | None, workers: int | None = None) -> Iterator[Any]:
    """Open a client of a Dask cluster, whose workers run all Dask computations in this context.

    Access to a scheduler allows anyone to run code on its workers. Workers on this machine
    therefore use TLS with new keys for each cluster, have no dashboard, and import modules from a
    temporary folder of this account alone.
    """
    dask = import_dask()
    import distributed

    found: Any = None
    if address is None:
        with suppress(ValueError):  # no client is in use
            found = nullcontext(distributed.default_client())
    elif address != LOCAL:
        try:
            found = distributed.Client(address, timeout=PATIENCE)
        except (OSError, TypeError, ValueError) as error:
            rule = "local, or the address of a scheduler that answers, such as tcp://host:8786"
            raise ArgumentError(
                "dask", rule, f"{safe_line(address)} ({safe_line(error)})"
            ) from None
    if found is not None:
        with found as client:
            yield client
        return
    how: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "security": True}
    how |= {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
    how |= {"silence_logs": logging.CRITICAL, "env": {"HOPFED_NUM_THREADS": "1"}}
    with (
        TemporaryDirectory(prefix="hopfed-dask-") as folder,
        dask.config.set({"temporary-directory": folder}),
        distributed.LocalCluster(local_directory=folder, **how) as made,
        distributed.Client(made) as client,
    ):
        yield client
