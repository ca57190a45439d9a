"""Tables as other libraries hold them: stacked owners, and tensors that are being trained."""

import numpy as np
import pytest

import hopfed
from hopfed.errors import DataError
from hopfed.hopfield.channel import small_sample
from hopfed.kernels import unpack
from hopfed.tables.examples import as_examples


def test_stacked_owners_are_not_taken_for_images():
    """Three owners of 200 rows each were three rows of 40,000 columns."""
    rows = small_sample()[1][:600]
    stacked = np.stack([rows[:200], rows[200:400], rows[400:]])
    message = r"a table is \(M, N\), got \(3, 200, 200\); give a list of tables for several owners"
    for read in (hopfed.recover, as_examples):
        with pytest.raises(DataError, match=message):
            read(stacked)
    assert len(hopfed.recover(list(stacked), seed=1)) == 3


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16", "int8", "bool"])
def test_tensors_of_every_kind_are_read(kind):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows = np.random.default_rng(0).integers(0, 2, (6, 5))
    tensor = torch.tensor(rows).to(getattr(torch, kind))
    if kind == "float32":
        tensor.requires_grad_()
    for read in (as_examples, lambda x: hopfed.read_table(x).rows):
        np.testing.assert_array_equal(unpack(read(tensor)) > 0, rows > 0)


def test_a_sparse_tensor_is_one_line():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for read in (as_examples, hopfed.read_table):
        with pytest.raises(DataError, match="a dense tensor is needed"):
            read(torch.eye(3).to_sparse())
