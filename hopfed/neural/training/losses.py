"""Arguments of an objective, a network and a batch, and the losses that make up objectives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.nn import functional

__all__ = ["Batch", "Net", "squared_distance"]

Params = dict[str, Tensor]  # name -> tensor


@dataclass(frozen=True, eq=False)
class Net:
    """A client's network as an objective sees it.

    Attributes
    ----------
    forward : function of parameters and inputs. A `Model` returns (features, logits); other modules
        return the inputs of their objective.
    params : the parameters and buffers in training, by name.

    Examples
    --------
    >>> import torch
    >>> net = Net(lambda params, x: params["w"] * x, {"w": torch.tensor(2.0)})
    >>> net(torch.tensor(3.0)), net.with_({"w": torch.tensor(5.0)})(torch.tensor(3.0))
    (tensor(6.), tensor(15.))
    """

    forward: Callable[..., Any] = field(repr=False)
    params: Params = field(repr=False)

    def __call__(self, *inputs: Any) -> Any:
        """Return the output at the inputs, with the current parameters."""
        return self.forward(self.params, *inputs)

    def with_(self, params: Params) -> Net:
        """Return the network with some parameters replaced."""
        return Net(self.forward, {**self.params, **params})


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples of one step.

    Attributes
    ----------
    x : (B, ...) inputs.
    y : (B,) labels.
    mask : (B,) 0 on rows of padding and 1 on examples; None without padding.
    extra : further tensors of the client that the objective uses, by name.

    Examples
    --------
    >>> import torch
    >>> logits = torch.tensor([[0.0, 0.0], [9.0, -9.0]])
    >>> batch = Batch(torch.ones(2, 3), torch.tensor([1, 1]), torch.tensor([1.0, 0.0]))
    >>> batch.cross_entropy(logits), batch.divergence(logits, logits)
    (tensor(0.6931), tensor(0.))
    """

    x: Tensor
    y: Tensor
    mask: Tensor | None = None
    extra: Params = field(default_factory=dict)

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """Return the mean cross-entropy of logits (B, classes) and labels."""
        if self.mask is None:
            return functional.cross_entropy(logits, self.y)
        # Written out, because PyTorch's function is slow under `vmap`.
        return self.mean(-logits.log_softmax(dim=1).gather(1, self.y[:, None])[:, 0])

    def divergence(self, logits: Tensor, teacher: Tensor) -> Tensor:
        """Return the mean KL(teacher || student) of softmaxes, without gradient for the teacher."""
        ours, theirs = logits.log_softmax(dim=1), teacher.detach().log_softmax(dim=1)
        return self.mean((theirs.exp() * (theirs - ours)).sum(dim=1))

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of values (B,) over the examples."""
        return masked_mean(values, self.mask)


Objective = Callable[[Net, Batch], Tensor]  # the loss of a batch


def masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """For losses: return the mean of `values` (B,) where `mask` (B,) is 1; of all if it is None."""
    return values.mean() if mask is None else (values * mask).sum() / mask.sum().clamp(min=1)


def squared_distance(params: Params, others: Params) -> Tensor:
    """For losses: squared distance of the tensors of `others` from the same names in `params`.

    Examples
    --------
    >>> import torch
    >>> squared_distance({"w": torch.ones(2), "b": torch.ones(1)}, {"w": torch.zeros(2)})
    tensor(2.)
    """
    far = [((params[name] - t) ** 2).sum() for name, t in others.items()]
    return sum(far[1:], far[0])
