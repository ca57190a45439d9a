"""The recipes for machines that one can log in to, and for a queue, are what their page says."""

import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from hopfed.hopfield.channel import draw_examples, rademacher

PAGE = (Path(__file__).parents[2] / "hopfed/pages/devices.md").read_text()


def recipe(word):
    """The Python of the recipe that has a word in it."""
    (found,) = [b for b in re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL) if word in b]
    return found


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

    xi, rng = rademacher(3, 60, np.random.default_rng(0)), np.random.default_rng(1)
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", draw_examples(xi, 400, 0.8, rng)[0])
    monkeypatch.setattr(distributed, "SSHCluster", here)
    names = {}
    # What the recipe sets for all of Dask is as before when the context ends.
    with dask.config.set({"distributed.nanny.environ": {}}):
        text = recipe("SSHCluster").replace("/shared/data/*.parquet", f"{tmp_path}/*.npy")
        exec(compile(text, "devices.md", "exec"), names)
    match = np.abs(names["found"].patterns @ xi.T.astype(int)).max(axis=1)
    assert match.tolist() == [60, 60, 60]


def test_the_recipe_for_a_queue_gives_slurm_what_the_page_says():
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    made, told, _ = recipe("SLURMCluster").partition("cluster.adapt")
    assert told
    names = {}
    exec(compile(made, "devices.md", "exec"), names)
    with names["cluster"] as cluster:
        script = cluster.job_script().splitlines()
    text = "\n".join(script)
    for line in (
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --mem=30G",
        "#SBATCH -t 02:00:00",
        "export HOPFED_NUM_THREADS=1",
        "source /shared/hopfed/bin/activate",
    ):
        assert line in script
    assert f"{sys.executable} -m distributed" in text
    for words in ("--nthreads 1", "--nworkers 8"):
        assert words in text
