"""The dense and the exponential memory as a PyTorch module with gradients.

The update steps are those of `hopfed.memory`, but for real states instead of signs. The step of
the exponential rule is attention with inverse temperature beta (arXiv:2008.02217, eq. (3)):

    q <- softmax(beta q X^T) X.

The step of the dense rule is the gradient of its energy, divided by the sum of its absolute
weights:

    q <- (q X^T / N)^(n - 1) X / sum_mu |q . x_mu / N|^(n - 1).

Both steps return weighted means of the patterns X (K, N). The sign of one exponential step from
+-1 states equals the synchronous update of `AssociativeMemory.recall`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Exponential, Overlapping, Rule, rule_named


def weights(states: Tensor, patterns: Tensor, rule: Overlapping) -> Tensor:
    """Weights (..., K) that states give to patterns; their sizes sum to one.

    Parameters
    ----------
    states : (..., N) real.
    patterns : (K, N) real.
    rule : `Dense` or `Exponential`.

    Examples
    --------
    >>> xi = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    >>> weights(xi, xi, Exponential(1.0)).round(decimals=2)
    tensor([[0.8800, 0.1200],
            [0.1200, 0.8800]])
    """
    sums = states @ patterns.T
    if isinstance(rule, Exponential):
        return torch.softmax(rule.beta * sums, dim=-1)
    powers = (sums / patterns.shape[1]) ** (rule.n - 1)
    tiny = torch.finfo(powers.dtype).tiny
    return powers / powers.abs().sum(dim=-1, keepdim=True).clamp(min=tiny)


def _overlapping(rule: Rule) -> Overlapping:
    """Return the rule if its energy is a sum over overlaps."""
    if isinstance(rule, Dense | Exponential):
        return rule
    raise ArgumentError("rule", "dense or exponential", rule.name)


class DenseMemory(nn.Module):
    """Associative memory of real patterns, differentiable in the states and in the patterns.

    Parameters
    ----------
    patterns : (K, N) real, the keys.
    rule : `Dense` or `Exponential`, or its name.
    values : (K, V) values that are read out instead of the keys; use them with one step only.
    learned : whether patterns and values are parameters; otherwise they are buffers.

    Raises
    ------
    ArgumentError : another rule, or shapes that do not fit.

    Examples
    --------
    >>> keys = torch.eye(3) * 4
    >>> memory = DenseMemory(keys, Exponential(2.0))
    >>> memory(torch.tensor([[3.0, 1.0, 0.0]])).round(decimals=2).tolist()
    [[4.0, 0.0, 0.0]]
    """

    patterns: Tensor
    values: Tensor | None

    def __init__(
        self,
        patterns: Tensor,
        rule: str | Rule = "exponential",
        values: Tensor | None = None,
        learned: bool = False,
    ):
        super().__init__()
        self.rule = _overlapping(rule_named(rule))
        shape = tuple(patterns.shape)
        require(patterns.ndim == 2 and len(patterns) > 0, "patterns", "of shape (K, N)", shape)
        for name, tensor in (("patterns", patterns), ("values", values)):
            if tensor is not None:
                fits = tensor.ndim == 2 and len(tensor) == len(patterns)
                require(fits, name, f"{len(patterns)} rows", tuple(tensor.shape))
            if learned and tensor is not None:
                setattr(self, name, nn.Parameter(tensor.clone()))
            else:
                self.register_buffer(name, tensor)

    @classmethod
    def of(cls, memory: AssociativeMemory, learned: bool = False) -> DenseMemory:
        """Return the module of a stored memory of signs, with equal weights.

        Examples
        --------
        >>> memory = AssociativeMemory.store(np.array([[1, 1, -1], [1, -1, 1]]), "exponential")
        >>> DenseMemory.of(memory)(torch.tensor([[1.0, 1.0, -1.0]])).sign().tolist()
        [[1.0, 1.0, -1.0]]
        """
        require(not memory.is_graded, "memory", "of signs", "graded patterns")
        even = bool(np.all(memory.weights == 1))
        require(even, "memory", "with weights of 1", "others")
        xi = torch.from_numpy(memory.patterns.astype(np.float32))
        return cls(xi, memory.rule, learned=learned)

    def energy(self, states: Tensor) -> Tensor:
        """Energy (...,) of states: `AssociativeMemory.energy`, extended to real states."""
        sums = states @ self.patterns.T
        if isinstance(self.rule, Exponential):
            return -torch.logsumexp(self.rule.beta * sums, dim=-1) / self.rule.beta
        n_sites = self.patterns.shape[1]
        return -(n_sites / self.rule.n) * ((sums / n_sites) ** self.rule.n).sum(dim=-1)

    def forward(self, states: Tensor, steps: int = 1) -> Tensor:
        """Return states (..., N) after `steps` updates; with values, the last step returns these.

        Parameters
        ----------
        states : (..., N) real.
        steps : at least 1.
        """
        require(steps >= 1, "steps", "at least 1", steps)
        for _ in range(steps - 1):
            states = weights(states, self.patterns, self.rule) @ self.patterns
        answers = self.patterns if self.values is None else self.values
        return weights(states, self.patterns, self.rule) @ answers
