"""FedRAL: a matrix between features and head, of which clients send bands."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from auxiliary import make, play  # noqa: E402

from hopfed.federation.contract import EVERYONE  # noqa: E402
from hopfed.neural.methods.fedral import FedRAL  # noqa: E402
from hopfed.neural.training.evaluation import Network  # noqa: E402


def test_before_training_the_matrix_turns_nothing():
    method = make(FedRAL, {})
    x, _ = method.loaded.tensors.batch(torch.arange(5))
    plain = Network(method.loaded.model(0), method.loaded.initial(0))(x)
    torch.testing.assert_close(method.classifier({}, {}, 0)(x), plain, rtol=1e-4, atol=1e-5)


def test_a_matrix_changes_angles_and_not_lengths():
    method = make(FedRAL, {})
    params = method.initial(0)
    params["shared.weight"] *= 7.0
    x, _ = method.loaded.tensors.batch(torch.arange(5))
    scaled = torch.func.functional_call(method.net(0), params, (x,))
    torch.testing.assert_close(scaled, method.net(0)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_band_has_the_entries_of_its_diagonals(share):
    method = make(FedRAL, {"least": share, "levels": 2})
    d, b = 84, int(np.ceil(share * 83))
    assert method.band(0).all()
    assert method.band(1).sum() == d * (2 * b + 1) - b * (b + 1)
    assert make(FedRAL, {"levels": 1}).band(3).all()


def test_entries_are_averaged_over_those_who_sent_them():
    method = make(FedRAL, {"least": 0.0, "levels": 3})  # all diagonals, 2 * 42 + 1, one
    before = {"model/weight": np.full((84, 84), 9.0, dtype=np.float32)}

    def message(c, value, size):
        entries = np.full(method.band(c).sum(), value, dtype=np.float32)
        return {"model/weight": entries, "examples": np.array(size)}

    after, down = method.answer(before, {1: message(1, 1.0, 30), 2: message(2, 5.0, 10)})
    matrix = down[EVERYONE]["model/weight"]
    np.testing.assert_allclose(np.diag(matrix), 2.0)
    np.testing.assert_allclose([matrix[0, 1], matrix[42, 0], matrix[0, 43]], [1.0, 1.0, 9.0])
    after, _ = method.answer(after, {0: message(0, 3.0, 10)})
    np.testing.assert_allclose(after["model/weight"], 3.0)


def test_what_lies_outside_the_band_has_no_effect():
    method = make(FedRAL, {"least": 0.1, "levels": 2})
    down = {"model/weight": np.ones((84, 84), dtype=np.float32)}
    start = method.start_params({}, down, 1)["shared.weight"].numpy()
    np.testing.assert_array_equal(start != 0, method.band(1))
    played = play(method, 1)
    kept = played.state.clients[1]["model/shared.weight"]
    np.testing.assert_array_equal(kept[~method.band(1)], 0)
