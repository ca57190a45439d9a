"""A CUDA device that is not there: its tensors say that they lie on it, and compute on the CPU.

Operations that mix such a tensor with one of the CPU raise, as on a real device; a single number
and a copy are the exceptions that CUDA makes too. Whatever makes the host wait for the device is
counted: numbers that are read, copies to the host, and shapes that depend on values.
"""

from collections import Counter
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("cuda:0")
aten = torch.ops.aten
READS = {aten._local_scalar_dense, aten.equal, aten.nonzero, aten.masked_select, aten.unique_dim}
COPIES = {aten._to_copy, aten.copy_, aten.copy}


class Pretend(torch.Tensor):
    """A tensor that says it is on the device; `inner` holds its numbers."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device="meta",  # as fake tensors do: nothing may be read without a dispatch
        )

    def __init__(self, inner):
        self.inner = inner

    @property
    def device(self):
        return DEVICE

    @property
    def is_cuda(self):
        return True

    @property
    def is_cpu(self):
        return False

    @property
    def is_meta(self):
        return False

    def __repr__(self):
        return f"Pretend({self.shape})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {}, Counter())


def dispatch(func, args, kwargs, counts):
    """Carry out an operation where its arguments are."""
    kwargs = dict(kwargs)
    packet = func.overloadpacket
    asked = kwargs.get("device")
    there = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Pretend)]
    here = [t for t in tree_leaves((args, kwargs)) if plain(t)]
    target = bool(there) if asked is None else torch.device(asked).type in ("cuda", "meta")
    if asked is not None:
        kwargs["device"] = "cpu"
    if packet in COPIES:
        if there and (not target or (packet is aten.copy_ and not isinstance(args[0], Pretend))):
            counts["to host"] += 1
        if (not there and target) or (packet is not aten._to_copy and there and here):
            counts["to device"] += 1
        if packet is not aten._to_copy:
            target = isinstance(args[0], Pretend)
    elif there and any(t.ndim for t in here):
        shapes = [tuple(t.shape) for t in here]
        raise RuntimeError(f"{func}: expected all tensors on one device, on the CPU are {shapes}")
    if there and packet in READS:
        counts[f"read by {packet.__name__}"] += 1
        if packet is aten._local_scalar_dense or packet is aten.equal:
            target = False
    if (
        there
        and packet is aten.index
        and any(t.dtype == torch.bool for t in tree_leaves(args[1]) if t is not None)
    ):
        counts["read by a mask"] += 1
    inner = tree_map(lambda t: t.inner if isinstance(t, Pretend) else t, (args, kwargs))
    out = func(*inner[0], **inner[1])
    if target:
        out = tree_map(lambda t: Pretend(t) if plain(t) else t, out)
    if there and target and packet is not aten._to_copy:
        return return_and_correct_aliasing(func, args, kwargs, out)
    return out


def plain(value):
    return isinstance(value, torch.Tensor) and not isinstance(value, Pretend)


class Mode(TorchDispatchMode):
    """Takes also the operations that make tensors."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if torch.is_inference_mode_enabled():  # composite operations come here whole
            with self:
                found = func.decompose(*args, **kwargs or {})
            if found is not NotImplemented:
                return found
        return dispatch(func, args, kwargs or {}, self.counts)


@contextmanager
def device(monkeypatch):
    """Let there be a device, `DEVICE`; yields the counts of what makes the host wait for it."""
    torch._C._ensureCUDADeviceGuardSet()
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with Mode() as mode:
            yield mode.counts
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
