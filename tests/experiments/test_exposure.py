"""Retrieval against exposure: what is foreseen, what is read from files, and that it runs."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import DATA

from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import exposure
from hopfed.experiments.exposure import Config, foreseen, gini, pictures
from hopfed.experiments.runner import execute
from hopfed.figures import drawer

TINY = Config(pictures=4, M=(200, 800), tilts=(1.0, 50.0), seeds=2)


def test_runs_repeat_and_are_drawn():
    run = execute(exposure, TINY)
    for name, array in exposure.run(TINY, 1).items():
        np.testing.assert_array_equal(run.arrays[name][1], array, err_msg=name)
    assert set(exposure.RECORD.measures) <= set(run.summary)
    assert run.summary["agree"][0] > 0.75
    assert run.summary["against"] < 0.1
    drawer(run.kind)(run).canvas.draw()
    # Equal shares of many examples: everything is seen, and the exposures are right.
    whole = run.arrays["matched"][:, 0, 1]
    assert whole.min() > 0.9
    np.testing.assert_allclose(
        run.arrays["estimated"][:, 0, 1], run.arrays["exposure"][:, 0, 1], atol=0.03
    )
    one = execute(exposure, replace(TINY, seeds=1))
    assert one.summary["agree"][1] is None


def test_an_archetype_in_the_directions_of_heavier_ones_is_not_foreseen():
    rng = np.random.default_rng(0)
    xi = np.sign(rng.standard_normal((2, 400)))
    shares = np.array([0.9, 0.1])
    assert (foreseen(xi, shares, 0.4, 1000) > 0.9).all()
    like = np.where(rng.random(400) < 0.02, -xi[0], xi[0])
    alike = foreseen(np.stack([xi[0], like]), shares, 0.4, 1000)
    assert alike[0] > 0.9
    assert alike[1] == 0
    swapped = foreseen(np.stack([like, xi[0]]), shares[::-1], 0.4, 1000)
    assert swapped[0] == 0  # the order of the rows does not matter
    assert swapped[1] == pytest.approx(alike[0])


def test_gini_is_the_mean_difference():
    shares = np.random.default_rng(0).dirichlet(np.ones(6), size=3)
    apart = np.abs(shares[:, :, None] - shares[:, None]).mean(axis=(1, 2))
    np.testing.assert_allclose(gini(shares), apart / 2 * 6)


def test_pictures_of_a_file(tmp_path):
    images = np.zeros((6, 4, 4), np.uint8)
    images[np.arange(6), 0, [0, 0, 1, 1, 2, 2]] = 200
    path = str(tmp_path / "p.npz")
    np.savez(
        path,
        images=images,
        labels=np.repeat([3, 5, 7], 2),
        split=np.array(["train", "test"] * 3),
    )
    xi = pictures(path, 3, seed=0)
    np.testing.assert_array_equal(xi.argmax(axis=1), [0, 1, 2])
    assert xi.sum() == 3 * (2 - 16)
    with pytest.raises(DataError, match="has 3 classes, not 4"):
        pictures(path, 4, seed=0)
    bad = str(tmp_path / "bad.npz")
    np.savez(bad, images=images)
    with pytest.raises(DataError, match="no labels"):
        pictures(bad, 2, seed=0)
    np.savez(bad, images=images[0], labels=np.arange(4))
    with pytest.raises(DataError, match="images must be"):
        pictures(str(bad), 2, seed=1)


@pytest.mark.parametrize(
    ("bad", "argument"),
    [
        ({"pictures": 1}, "pictures"),
        ({"M": (10,)}, "M"),
        ({"tilts": (0.5,)}, "tilts"),
        ({"quality": 1.0}, "quality"),
        ({"seeds": 0}, "seeds"),
    ],
)
def test_bad_settings_name_themselves(bad, argument):
    with pytest.raises(ArgumentError) as error:
        Config(**bad)
    assert error.value.argument == argument


def test_digits_are_seen_as_foreseen():
    path = DATA / "mnist.npz"
    if not path.is_file():
        pytest.skip("MNIST not at hand; set HOPFED_DATA to its folder")
    config = Config(data=str(path), M=(3000,), tilts=(1.0, 10.0), seeds=1)
    arrays = exposure.run(config, 100)
    assert arrays["matched"][0].min() > 0.95
    assert arrays["false"].max() == 0
