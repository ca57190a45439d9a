import numpy as np
import pytest

from hopfed.kernels.cpu import compiled


def twice(x):
    return 2 * x


def test_machine_code_on_disk_is_tied_to_the_sources_of_the_package():
    function = compiled.kernel(twice)
    assert function(21) == 42
    assert function.__name__ == "twice"
    assert [cell.cell_contents for cell in function.py_func.__closure__] == [compiled.SOURCES]
    assert len(compiled.SOURCES) == 64


def test_a_kernel_may_not_have_a_closure():
    factor = np.float64(3)

    def scale(x):
        return factor * x

    with pytest.raises(TypeError, match="scale may not have a closure"):
        compiled.kernel(scale)
