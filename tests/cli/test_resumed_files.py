"""A run that is continued, and what its file alone would have read."""

import pytest

from hopfed._lib.settings import to_plain
from hopfed.experiments import find
from hopfed.runs import Run


@pytest.mark.parametrize(
    ("kind", "setting", "file"),
    [
        ("tables", "data", "../mine"),
        ("capacity", "data", "mine.npz"),
        ("fl", "weights", "nets/mine.safetensors"),
    ],
)
def test_a_run_that_is_resumed_reads_no_file_that_it_alone_names(
    hopfed, tmp_path, kind, setting, file
):
    if kind == "fl":
        pytest.importorskip("torch")
    out = tmp_path / "theirs.h5"
    held = (file,) if setting == "weights" else file
    config = to_plain(find(kind).Config(**{setting: held, "seeds": 1}))
    Run(kind, config, {}, {}, committed=0, planned=1).save(out)
    before = out.read_bytes()
    again = "run", kind, "--resume", "--out", out
    status, text, error = hopfed(*again)
    assert (status, text) == (2, "")
    assert f"names a file to read, {file}; give --trust or the same --set {setting}=" in error
    assert out.read_bytes() == before
    status, _, error = hopfed(*again, "--set", f"{setting}={file}")
    assert status == 2
    assert "names a file to read" not in error
