"""The recipes for machines that one can log in to, and for a queue, are what their page says."""

import os
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
def test_the_recipe_for_ssh_runs_where_all_machines_are_this_one(tmp_path):
    pytest.importorskip("asyncssh", reason="asyncssh is not installed")
    pytest.importorskip("distributed", reason="distributed is not installed")
    import dask
    from ssh import Machine

    xi, rng = rademacher(3, 60, np.random.default_rng(0)), np.random.default_rng(1)
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", draw_examples(xi, 400, 0.8, rng)[0])
    # What the recipe sets for all of Dask is as before when the context ends.
    with Machine(tmp_path) as machine, dask.config.set({"distributed.nanny.environ": {}}):
        text = recipe("SSHCluster")
        for there, here in (
            ('"node1", "node1", "node2", "node3"', ", ".join(['"127.0.0.1"'] * 3)),
            ('"n_workers": 8}', f'"n_workers": 1}}, connect_options={machine.options!r}'),
            ("/shared/hopfed/bin/python", sys.executable),
            ("/shared/data/*.parquet", f"{tmp_path}/*.npy"),
            (
                "    found =",
                "    threads = set(client.run(os.getenv, 'HOPFED_NUM_THREADS').values())\n"
                "    number = len(client.nthreads())\n    found =",
            ),
            ("Client(cluster):", "Client(cluster) as client:"),
        ):
            assert text.count(there) == 1, there
            text = text.replace(there, here)
        names = {"os": os}
        exec(compile(text, "devices.md", "exec"), names)
    assert (names["number"], names["threads"]) == (2, {"1"})
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
