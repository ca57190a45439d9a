"""Interface of the kernels to a device, implemented by CuPy.

All access to a GPU uses the methods of `Cuda`: arrays (`xp`), kernel launches, matrix products,
free memory. The tests have a device with the same methods on the host, to which its arrays refer
as `emulated`, so that the code around the kernels is tested without a GPU.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, BackendError

FOLDER = Path(__file__).parent
# Operations are fused only by fmaf, also when emulated. CuPy adds -ftz=true: on a device a float32
# that is not 0 and below 1.2e-38 becomes 0, unlike on the CPU and emulated.
OPTIONS = ("-std=c++17", "-fmad=false")
PLAIN_SHARED = 48 << 10  # bytes of shared memory of a block by default, static and dynamic
BLOCK = 256  # default number of threads of a block


@lru_cache(maxsize=16)
def cuda_source(name: str) -> str:
    """For a device, CUDA C++ of `name`.cu with common.cu inserted: no search path is needed."""
    common = (FOLDER / "common.cu").read_text(encoding="utf-8")
    text = (FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    return text.replace('#include "common.cu"', common)


class Cuda:
    """A CUDA device under CuPy."""

    def __init__(self, ordinal: int = 0):
        try:
            import cupy
        except ImportError as error:
            raise BackendError(
                f"a CUDA device needs CuPy, which cannot be imported ({error}): "
                "pip install 'hopfed[cuda13]'"
            ) from None
        self.xp: Any = cupy
        self.ordinal = ordinal
        try:
            properties = cupy.cuda.runtime.getDeviceProperties(ordinal)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise BackendError(f"CuPy finds no usable CUDA device {ordinal}: {error}") from None
        try:
            from cupy_backends.cuda.libs import cublas, nvrtc  # noqa: F401  (CuPy loads them late)
        except ImportError as error:
            raise BackendError(
                f"CuPy does not find CUDA's libraries ({str(error).splitlines()[0]}): install "
                "them with pip install 'hopfed[cuda13]', or the CUDA toolkit"
            ) from None
        self.name = properties["name"].decode()
        self.capability = 10 * properties["major"] + properties["minor"]
        self.shared_limit = int(properties["sharedMemPerBlockOptin"])
        self.processors = int(properties["multiProcessorCount"])
        self._modules: dict[str, Any] = {}
        self._kernels: dict[tuple[str, str], Any] = {}

    def kernel(self, module: str, name: str, shared: int = 0) -> Any:
        """Compiled kernel `name` of `module`.cu, allowed `shared` bytes of dynamic memory."""
        found = self._kernels.get((module, name))
        if found is None:
            if module not in self._modules:
                self._modules[module] = self.xp.RawModule(code=cuda_source(module), options=OPTIONS)
            found = self._kernels[module, name] = self._modules[module].get_function(name)
        if shared and shared + found.shared_size_bytes > PLAIN_SHARED:
            found.max_dynamic_shared_size_bytes = shared
        return found

    def launch(
        self,
        module: str,
        name: str,
        grid: tuple[int, int],
        args: tuple,
        threads: int = BLOCK,
        shared: int = 0,
    ) -> None:
        """Start a kernel on the current stream; `args` are arrays and NumPy scalars."""
        self.kernel(module, name, shared)(grid, (threads,), args, shared_mem=shared)

    def gemm(self, a: Any, b: Any, out: Any, *, ta: bool, tb: bool, add: bool) -> None:
        """out (+)= op(a) op(b) by cuBLAS, without any allocation.

        Row-major matrices with any row stride (last stride one element); float32, never as TF32,
        float64, int8 to int32, with sides and pitches that are multiples of 4, or uint16, which
        holds bfloat16, to float32.
        """
        from cupy_backends.cuda.libs import cublas

        m, n = out.shape
        # The stride of a single row is arbitrary.
        lead = [x.strides[0] // x.itemsize if len(x) > 1 else x.shape[1] for x in (b, a, out)]
        # cuBLAS is column-major: it computes the transpose, op(b)^T op(a)^T.
        shape = (int(tb), int(ta), n, m, a.shape[0] if ta else a.shape[1])
        one, beta = np.array(1, out.dtype), np.array(int(add), out.dtype)
        given, made, compute = _TYPES[a.dtype]
        cublas.gemmEx(
            self.xp.cuda.device.get_cublas_handle(), *shape, one.ctypes.data, b.data.ptr, given,
            lead[0], a.data.ptr, given, lead[1], beta.ctypes.data, out.data.ptr, made, lead[2],
            getattr(cublas, compute), cublas.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip

    def synchronize(self) -> None:
        """Wait until all work of the device is done."""
        self.current().synchronize()

    def current(self) -> Any:
        """Context in which new arrays are made on this device."""
        return self.xp.cuda.Device(self.ordinal)


# Types of input and output, CUDA_R_* of library_types.h, and of the arithmetic.
_TYPES = {
    np.dtype(np.float32): (0, 0, "CUBLAS_COMPUTE_32F"),
    np.dtype(np.float64): (1, 1, "CUBLAS_COMPUTE_64F"),
    np.dtype(np.int8): (3, 10, "CUBLAS_COMPUTE_32I"),  # 8I, 32I
    np.dtype(np.uint16): (14, 0, "CUBLAS_COMPUTE_32F"),  # 16BF, 32F
}


@lru_cache(maxsize=16)
def cuda(ordinal: int) -> Cuda:
    """Return the device of this number, opened once."""
    return Cuda(ordinal)


def device_of(name: str, x: Any) -> Any:
    """Return the device of array `x`, passed as `name`, or raise ArgumentError."""
    emulated = getattr(x, "emulated", None)
    if emulated is not None:
        return emulated
    if type(x).__module__.partition(".")[0] != "cupy":
        raise ArgumentError(name, "a CuPy array", f"{type(x).__name__}")
    device = cuda(x.device.id)
    current = device.xp.cuda.Device().id
    if current != device.ordinal:  # intermediate arrays would be made on another device
        rule = f"on the current device {current} (enter `with cupy.cuda.Device(n)`)"
        raise ArgumentError(name, rule, f"an array on device {device.ordinal}")
    return device


def grid_of_blocks(items: int, per_block: int = BLOCK) -> tuple[int, int]:
    """Grid on a device of at least one block that covers `items`."""
    return max(1, -(-items // per_block)), 1
