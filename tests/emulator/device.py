"""A stand-in for a CUDA device on the host: the same kernels, one thread after another.

`Emulated` has the methods of `device.Cuda`. Its arrays are NumPy's, wrapped so that NumPy does not
take them; its kernels are those of the .cu files, compiled by a C++ compiler with emulate.cu, which
runs a block as fibres. Thousands of times slower than a device, and blind to speed, but indices,
barriers, layouts and arithmetic are those of the real thing. It is stricter than a device: shared
memory that nobody wrote is poison, threads run in any of five orders, and the arguments of a
launch are held to the kernel's signature.

Two variables of the environment are for tests of the tests: `HOPFED_EMULATED_ORDER` names the order
of threads, and ``HOPFED_EMULATED_WITHOUT=gram:2`` leaves out the barrier of this number, from 0, of
gram.cu.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import array_api_compat.numpy
import numpy as np

from hopfed.errors import BackendError
from hopfed.kernels.cuda.device import BLOCK, FOLDER

# In which the threads of a block run; the last two warp by warp.
ORDERS = ("forward", "reversed", "strided", "warps", "last warp first")
KINDS = {
    "i8": np.int8,
    "u8": np.uint8,
    "unsigned char": np.uint8,
    "u16": np.uint16,
    "int": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
    "float": np.float32,
    "double": np.float64,
}


def widen_bfloat16(x):
    """Return bfloat16 numbers as float32, exactly."""
    return (x.astype(np.uint32) << 16).view(np.float32)


ORDER, WITHOUT = "HOPFED_EMULATED_ORDER", "HOPFED_EMULATED_WITHOUT"  # of the environment
BARRIER = re.compile(r"(__sync(threads|warp)|copies_wait<[^>]*>)\(\);")  # what threads wait for

_INCLUDED = ((Path(__file__).parent, "emulate.cu"), (FOLDER, "common.cu"))
FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-x", "c++")


class HostArray:
    """A NumPy array that stands for one on a device: NumPy itself does not take it.

    As with CuPy's arrays, `get` alone brings it to the host, arithmetic with host arrays is an
    error, and so is NumPy's conversion; so code that leaves the device unawares fails its tests.
    """

    __slots__ = ("emulated", "held")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, held: np.ndarray, device: Emulated):
        self.held, self.emulated = held, device

    def get(self) -> np.ndarray:
        """Copy to the host."""
        self.emulated.copies["down"] += 1
        return self.held.copy()

    @property
    def device(self) -> Emulated:
        """Where it lives."""
        return self.emulated

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("an array of a device is not converted to NumPy's unasked: use get()")

    def __array_namespace__(self, **_: Any) -> Any:
        return self.emulated.standard

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.held, name)
        return self.emulated.marking(found) if callable(found) else self.emulated.mark(found)

    def __getitem__(self, index: Any) -> Any:
        index = tuple(map(_index, index)) if isinstance(index, tuple) else _index(index)
        found = self.held[index]
        # An entry is a view of CuPy's, too.
        self.emulated.count(found if isinstance(found, np.ndarray) else None, self.held)
        return self.emulated.mark(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        index = tuple(map(_index, index)) if isinstance(index, tuple) else _index(index)
        self.emulated.copies["calls"] += 1
        self.held[index] = self.emulated.unmark(value)

    def __len__(self) -> int:
        return len(self.held)

    def __bool__(self) -> bool:
        self.emulated.copies["asked"] += 1  # whether something is so: a wait, and hardly a copy
        return bool(self.held)

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def item(self) -> Any:
        """The only number as one of Python, which is a copy to the host too."""
        return self.get().item()


def _index(x: Any) -> Any:
    """Indices may be on either side, as with CuPy."""
    return x.held if isinstance(x, HostArray) else x


def _operator(name: str) -> Callable[..., Any]:
    def apply(self: HostArray, *others: Any) -> Any:
        result = getattr(self.held, name)(*(self.emulated.unmark(x) for x in others))
        self.emulated.copies["calls"] += 1
        return self if result is self.held else self.emulated.mark(result)

    return apply


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_BITWISE = ("and", "or", "xor", "lshift", "rshift")
_OTHER = ("lt", "le", "eq", "ne", "gt", "ge", "neg", "pos", "abs", "invert")
for _name in (*(s + n for s in ("", "r", "i") for n in _BINARY + _BITWISE), *_OTHER):
    setattr(HostArray, f"__{_name}__", _operator(f"__{_name}__"))


class _Namespace:
    """A module of array functions, NumPy's or the standard's, on the arrays of a device."""

    def __init__(self, module: Any, device: Emulated):
        self._module, self._device = module, device
        name = getattr(module, "__name__", type(module).__name__)
        self.__name__ = f"{name} on {device.name} {device.ordinal}"  # tells it apart

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if name == "from_dlpack":
            return lambda x: self._device.mark(found(_Lent(x)))
        if isinstance(found, ModuleType):
            return _Namespace(found, self._device)
        if isinstance(found, type) or not callable(found):
            return found
        return self._device.marking(found, takes_host=name in ("asarray", "array"))


class _Lent:
    """What another library lends of a device, of which NumPy must think that it is on the host."""

    def __init__(self, x: Any):
        self._x = x

    def __dlpack__(self, **_: Any) -> Any:
        return self._x.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Emulated:
    """A device on the host; see `device.Cuda` for the methods.

    Parameters
    ----------
    ordinal : any number; arrays of different devices do not mix.
    order : one of `ORDERS`.
    """

    name = "emulated device"
    capability = 90
    shared_limit = 227 << 10
    processors = 2

    def __init__(self, ordinal: int = 0, order: str = ""):
        self.ordinal = ordinal
        self.order = ORDERS.index(order or os.environ.get(ORDER, "forward"))
        self.id = ordinal  # as CuPy calls it
        self.xp: Any = _Namespace(np, self)
        self.standard: Any = _Namespace(array_api_compat.numpy, self)
        self.launches: list[str] = []
        # To the device, back, yes or no; and products and functions of arrays, each a launch or
        # more of its own, but for those that give a view.
        self.copies = {"up": 0, "down": 0, "asked": 0, "calls": 0}

    def mark(self, x: Any) -> Any:
        """Results of NumPy as this device's: also numbers, which stay on a device until asked."""
        if isinstance(x, tuple):
            return tuple(self.mark(item) for item in x)
        if isinstance(x, np.random.Generator):
            return _Namespace(x, self)
        return HostArray(np.asarray(x), self) if isinstance(x, np.ndarray | np.generic) else x

    def unmark(self, x: Any) -> Any:
        """Arrays of this device as NumPy's; no other array passes."""
        if isinstance(x, list | tuple):
            return type(x)(self.unmark(item) for item in x)
        if isinstance(x, np.ndarray) or (isinstance(x, HostArray) and x.emulated is not self):
            raise TypeError(f"an array of {self.name} {self.ordinal} was expected")
        return x.held if isinstance(x, HostArray) else x

    def marking(self, function: Callable[..., Any], takes_host: bool = False) -> Callable[..., Any]:
        """Return `function` of NumPy as one of this device."""

        def call(*args: Any, **options: Any) -> Any:
            options.pop("device", None)
            if takes_host and isinstance(args[0], np.ndarray):
                self.copies["up"] += 1
            else:
                args = tuple(self.unmark(x) for x in args)
            result = function(*args, **{k: self.unmark(v) for k, v in options.items()})
            self.count(result, *args, getattr(function, "__self__", None))
            return self.mark(result)

        return call

    def count(self, result: Any, *given: Any) -> None:
        """Count a launch, unless the result is a view of what was given, or there is none."""
        arrays = [x for x in given if isinstance(x, np.ndarray)]
        view = isinstance(result, np.ndarray) and any(
            np.may_share_memory(result, x) for x in arrays
        )
        self.copies["calls"] += result is not None and not view

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
        _check(module, name, grid, args, threads)
        values = [_as_c(x) for x in args]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        sizes = (ctypes.c_int * 2)(*grid)
        library = _library(module)
        library.set_order(self.order)
        done = getattr(library, f"launch_{name}")(sizes, threads, shared, pointers)
        if done == 0:
            raise BackendError(f"{name}: some threads wait at a barrier that others passed by")
        if done == 2:
            raise BackendError(f"{name}: words are copied to or from where none start")

    def gemm(self, a: Any, b: Any, out: Any, *, ta: bool, tb: bool, add: bool) -> None:
        """out (+)= op(a) op(b); int8 in int32, with the strides that cuBLAS asks for.

        What is of 16 bits is bfloat16, and multiplied in float32.
        """
        a, b, out = (self.unmark(x) for x in (a, b, out))
        self.copies["calls"] += 1
        if a.dtype == np.uint16:
            a, b = widen_bfloat16(a), widen_bfloat16(b)
        if a.dtype == np.int8:
            sides = (*a.strides[:1], *b.strides[:1], *a.shape, *b.shape, *out.shape)
            if any(side % 4 for side in sides):
                raise BackendError(f"an int8 product needs multiples of 4, got {sides}")
            a, b = a.astype(np.int32), b.astype(np.int32)
        product = (a.T if ta else a) @ (b.T if tb else b)
        if product.dtype != out.dtype or product.shape != out.shape:
            raise BackendError(f"{product.dtype} {product.shape} into {out.dtype} {out.shape}")
        out[...] = out + product if add else product

    @contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """Count the copies between host and device that are made inside, and what is asked."""
        before, during = dict(self.copies), dict.fromkeys(self.copies, 0)
        try:
            yield during
        finally:
            during.update({way: self.copies[way] - before[way] for way in during})

    @contextmanager
    def current(self) -> Iterator[Any]:
        """Do nothing: arrays know their device."""
        yield self

    def synchronize(self) -> None:
        """Do nothing, as a stream."""


def source(module: str) -> str:
    """Text of a .cu file, without the barrier that the environment leaves out."""
    text = (FOLDER / f"{module}.cu").read_text(encoding="utf-8")
    name, _, number = os.environ.get(WITHOUT, "").partition(":")
    if name != module:
        return text
    barrier = list(BARRIER.finditer(text))[int(number)]
    return text[: barrier.start()] + ";" + text[barrier.end() :]


@lru_cache(maxsize=16)
def signatures(module: str) -> dict[str, list[str]]:
    """Kernel -> the types of its arguments, as in ``{"scale": ["int*", "i64"]}``."""
    found = {}
    text = re.sub(r"__launch_bounds__\([^)]*\)", "", source(module))
    for name, args in re.findall(r"__global__\s+void\s+(\w+)\(([^)]*)\)", text):
        kinds = (re.sub(r"\bconst\b|\b\w+$", "", a.strip()).split() for a in args.split(","))
        found[name] = ["".join(k) if "*" in "".join(k) else " ".join(k) for k in kinds]
        found[name] = [k.replace("unsignedchar", "unsigned char") for k in found[name]]
    return found


def _check(module: str, name: str, grid: tuple[int, int], args: tuple, threads: int) -> None:
    """Hold a launch to the signature of the kernel, and to what a device can start."""
    kinds = signatures(module)[name]
    if len(kinds) != len(args):
        raise BackendError(f"{name} takes {len(kinds)} arguments, got {len(args)}")
    for number, (kind, x) in enumerate(zip(kinds, args, strict=True)):
        array = isinstance(x, HostArray)
        wanted, dtype = np.dtype(KINDS[kind.rstrip("*")]), np.dtype(getattr(x, "dtype", object))
        # Atomic sums are of u64: an array of int64 is the same to them.
        same = dtype == wanted or (array and wanted == np.uint64 and dtype == np.int64)
        if array is not kind.endswith("*") or not same:
            got = f"{'an array of ' if array else ''}{dtype}"
            raise BackendError(f"argument {number} of {name} is {kind}, got {got}")
    fits = 0 < threads <= 1024 and threads % 32 == 0 and 0 < grid[0] < 1 << 31
    if not (fits and 0 < grid[1] < 1 << 16):
        raise BackendError(f"{name} cannot start {grid} blocks of {threads} threads")


def _as_c(x: Any) -> Any:
    """Argument of a kernel as the C value that it takes."""
    if isinstance(x, HostArray):
        return ctypes.c_void_p(x.held.ctypes.data)
    if not isinstance(x, np.generic):
        raise BackendError(f"a kernel takes arrays and NumPy scalars, got {type(x).__name__}")
    kind: Any = x.dtype
    return np.ctypeslib.as_ctypes_type(kind)(x.item())


@lru_cache(maxsize=16)
def _library(module: str) -> ctypes.CDLL:
    """Compile `module`.cu for the host, unless the same was compiled before."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise BackendError("the emulated device needs a C++ compiler: none of g++, c++ is there")
    text, here = source(module), Path(__file__).parent
    parts = [text, *FLAGS, *((f / n).read_text("utf-8") for f, n in _INCLUDED)]
    marked = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    kept = Path(tempfile.gettempdir(), f"hopfed-emulated-{os.getuid()}", f"{marked}.so")
    if not kept.is_file():
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            file, library = Path(folder, "source.cu"), Path(folder, "source.so")
            file.write_text(text, encoding="utf-8")
            command = [compiler, *FLAGS, f"-I{here}", f"-I{FOLDER}", str(file), "-o", str(library)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise BackendError(f"{compiler} cannot compile {module}.cu: {done.stderr.strip()}")
            library.replace(kept)  # at once: other processes see all of it or nothing
    return ctypes.CDLL(str(kept))
