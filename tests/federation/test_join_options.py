"""Options of `hopfed join` that replace a file of the owner, or promise nothing."""

import numpy as np
import pytest
from asking import signs


@pytest.mark.parametrize("name", ["d.npy", "ca.npy", "key.npy"])
def test_what_was_found_does_not_replace_the_examples_or_a_key(tmp_path, hopfed, name):
    np.save(tmp_path / "d.npy", signs(240))
    for other in ("ca.npy", "key.npy"):
        (tmp_path / other).write_text("of value")
    before = (tmp_path / name).read_bytes()
    files = {"--data": "d.npy", "--ca": "ca.npy", "--key": "key.npy", "--out": name}
    named = [word for option, file in files.items() for word in (option, tmp_path / file)]
    status, _, error = hopfed(
        "join", *named, "--trust-server", "--server", "127.0.0.1:9", "--patience", 1
    )
    assert status == 2
    assert "--out must be another file than the input" in error
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize(
    ("option", "value"), [("--patience", "nan"), ("--patience", "-1"), ("--delta", "2")]
)
def test_options_that_promise_nothing_are_refused(tmp_path, hopfed, option, value):
    np.save(tmp_path / "d.npy", signs(240))
    status, _, error = hopfed(
        "join", "--data", tmp_path / "d.npy", "--epsilon", 1, "--dry-run", option, value
    )
    assert (status, option in error) == (2, True)
