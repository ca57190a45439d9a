"""A stand-in for a CUDA device on the host: the same kernels, one thread after another.

`Emulated` has the methods of `device.Cuda`. Its arrays are NumPy's, marked by a subclass; its
kernels are those of the .cu files, compiled by a C++ compiler with emulate.cu, which runs a block
as fibres. Thousands of times slower than a device, and blind to speed and to races inside a warp,
but indices, barriers, layouts and arithmetic are those of the real thing. Only tests use it.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import BackendError
from hopfed.kernels.cuda.device import BLOCK, FOLDER

FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-x", "c++")


class HostArray(np.ndarray):
    """A NumPy array that stands for one on the device in its attribute `emulated`."""

    emulated: Any = None

    def __array_finalize__(self, other: Any) -> None:
        if self.emulated is None:
            self.emulated = getattr(other, "emulated", None)

    def get(self) -> np.ndarray:
        """Copy to the host."""
        return np.array(self.view(np.ndarray))


class _Namespace:
    """NumPy, its results marked as arrays of a device."""

    def __init__(self, module: Any, device: Emulated):
        self._module, self._device = module, device

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if name == "linalg":
            return _Namespace(found, self._device)
        if isinstance(found, type) or not callable(found):
            return found

        def marked(*args: Any, **options: Any) -> Any:
            return self._mark(found(*args, **options))

        return marked

    def _mark(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(self._mark(item) for item in x)
        if not isinstance(x, np.ndarray):
            return x
        x = x.view(HostArray)
        x.emulated = self._device
        return x


class Emulated:
    """A device on the host; see `device.Cuda` for the methods.

    Parameters
    ----------
    ordinal : any number; arrays of different devices do not mix.
    memory : bytes that one matrix or buffer made by `allocate` may have.
    """

    name = "emulated device"
    capability = 90
    trial = (64, 256)
    shared_limit = 227 << 10
    out_of_memory = MemoryError

    def __init__(self, ordinal: int = 0, memory: int = 1 << 30):
        self.xp: Any = _Namespace(np, self)
        self.ordinal, self.memory = ordinal, memory
        self.launches: list[str] = []

    def launch(
        self,
        module: str,
        name: str,
        grid: tuple[int, int],
        args: tuple,
        threads: int = BLOCK,
        shared: int = 0,
    ) -> None:
        """Run a kernel to its end."""
        self.launches.append(name)
        values = [_as_c(x) for x in args]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        sizes = (ctypes.c_int * 2)(*grid)
        getattr(_library(module), f"launch_{name}")(sizes, threads, shared, pointers)

    def gemm(self, a: Any, b: Any, out: Any, *, ta: bool, tb: bool, add: bool) -> None:
        """out (+)= op(a) op(b); int8 in int32, with the strides that cuBLAS asks for."""
        if a.dtype == np.int8:
            sides = (*a.strides[:1], *b.strides[:1], *a.shape, *b.shape, *out.shape)
            if any(side % 4 for side in sides):
                raise BackendError(f"an int8 product needs multiples of 4, got {sides}")
            a, b = a.astype(np.int32), b.astype(np.int32)
        product = (a.T if ta else a) @ (b.T if tb else b)
        if product.dtype != out.dtype or product.shape != out.shape:
            raise BackendError(f"{product.dtype} {product.shape} into {out.dtype} {out.shape}")
        out[...] = out + product if add else product

    def free_memory(self) -> int:
        """Bytes that an allocation may hope for."""
        return self.memory

    def seconds(self, work: Callable[[], None], repeats: int = 1) -> float:
        """Time of `work`; meaningless as a measure of a device."""
        from time import perf_counter

        start = perf_counter()
        for _ in range(repeats):
            work()
        return (perf_counter() - start) / repeats

    @contextmanager
    def stream(self) -> Iterator[Any]:
        """Do nothing: work is done in order."""
        yield self

    def synchronize(self) -> None:
        """Do nothing, as a stream."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return `work` itself, not run, as a graph is not when it is recorded."""
        return work


def _as_c(x: Any) -> Any:
    """Argument of a kernel as the C value that it takes."""
    if isinstance(x, HostArray):
        return ctypes.c_void_p(x.ctypes.data)
    if not isinstance(x, np.generic):
        raise BackendError(f"a kernel takes arrays and NumPy scalars, got {type(x).__name__}")
    kind: Any = x.dtype
    return np.ctypeslib.as_ctypes_type(kind)(x.item())


@lru_cache(maxsize=16)
def _library(module: str) -> ctypes.CDLL:
    """Compile `module`.cu for the host."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise BackendError("the emulated device needs a C++ compiler: none of g++, c++ is there")
    folder = Path(tempfile.mkdtemp(prefix="hopfed-emulated-"))
    library = folder / f"{module}.so"
    command = [compiler, *FLAGS, str(FOLDER / f"{module}.cu"), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BackendError(f"{compiler} cannot compile {module}.cu: {done.stderr.strip()}")
    loaded = ctypes.CDLL(str(library))
    shutil.rmtree(folder)
    return loaded
