import subprocess
import sys
import threading

import numpy as np
import pytest

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels.cpu import compiled
from hopfed.kernels.cpu.threads import for_each, thread_count


def test_importing_loads_no_compiler_and_no_device():
    modules = "bits, device, gram, heatbath, layered, products"
    code = f"import sys; from hopfed.kernels.cuda import {modules}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "scipy", "cupy"} & set(out.stdout.split())


def test_the_number_of_threads_can_be_set(monkeypatch):
    monkeypatch.setenv("HOPFED_NUM_THREADS", "3")
    assert thread_count() == 3
    for bad in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("HOPFED_NUM_THREADS", bad)
        with pytest.raises(ArgumentError, match="HOPFED_NUM_THREADS must be"):
            thread_count()


def test_a_failing_task_is_raised_in_the_caller(monkeypatch):
    monkeypatch.setenv("HOPFED_NUM_THREADS", "4")

    def task(i):
        if i == 5:
            raise KeyError(i)

    with pytest.raises(KeyError, match="5"):
        for_each(task, range(20))


def test_kernels_may_be_called_from_several_threads_at_once():
    x = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), (200, 300))
    wanted = x.astype(int) @ x.T.astype(int)
    results = {}

    def work(i):
        results[i] = kernels.gram(kernels.pack(x))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((results[i] == wanted).all() for i in range(4))


def twice(x):
    return 2 * x


def test_machine_code_on_disk_is_tied_to_the_sources_of_the_package():
    function = compiled.compile_kernel(twice)
    assert function(21) == 42
    assert [cell.cell_contents for cell in function.py_func.__closure__] == [compiled.SOURCES]

    def scaled(x):
        return function(x)

    with pytest.raises(TypeError, match="scaled may not have a closure"):
        compiled.compile_kernel(scaled)
