"""The recipe for machines that one can log in to is what its page says."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import sample

PAGE = (Path(__file__).parents[2] / "hopfed/pages/devices.md").read_text()


@pytest.mark.slow
def test_the_recipe_for_ssh_gives_dask_what_it_takes(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    import dask

    taken = inspect.signature(distributed.SSHCluster)

    def here(*given, **options):
        worker = taken.bind(*given, **options).arguments["worker_options"]
        return distributed.LocalCluster(
            n_workers=2, threads_per_worker=worker["nthreads"], dashboard_address=":0"
        )

    xi, x = sample(3, 60, 1200, 0.8, 0)
    for i, rows in enumerate(np.split(x, 3)):
        np.save(tmp_path / f"{i}.npy", rows)
    monkeypatch.setattr(distributed, "SSHCluster", here)
    (text,) = [b for b in re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL) if "SSHCluster" in b]
    names = {}
    # What the recipe sets for all of Dask is as before when the context ends.
    with dask.config.set({"distributed.nanny.environ": {}}):
        text = text.replace("/shared/data/*.parquet", f"{tmp_path}/*.npy")
        exec(compile(text, "devices.md", "exec"), names)
    match = np.abs(names["found"].patterns @ xi.T.astype(int)).max(axis=1)
    assert match.tolist() == [60, 60, 60]
