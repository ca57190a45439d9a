"""The memory as a module of PyTorch: equal to NumPy's, and differentiable."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.memory.associative import AssociativeMemory  # noqa: E402
from hopfed.memory.rules import Dense, Exponential  # noqa: E402
from hopfed.neural.memory.dense import DenseMemory  # noqa: E402


def signs(shape, seed):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


def test_the_sign_of_a_step_is_the_synchronous_update_of_numpy():
    xi, cues = signs((30, 50), 1), signs((200, 50), 2)
    memory = AssociativeMemory.store(xi, Exponential(0.2))
    now, real = cues, torch.from_numpy(cues.astype(np.float64))
    module = DenseMemory.of(memory).double()
    for _ in range(4):
        now = memory.recall(now, updates=1, order="synchronous").states
        real = torch.where(module(real) >= 0, 1.0, -1.0).double()
        np.testing.assert_array_equal(real.numpy(), now)


@pytest.mark.parametrize("rule", [Dense(3), Dense(4), Exponential(0.3)], ids=repr)
def test_energies_agree_and_a_step_goes_along_their_gradient(rule):
    xi, states = signs((7, 20), 1), signs((5, 20), 2)
    memory = AssociativeMemory.store(xi, rule)
    module = DenseMemory.of(memory).double()
    q = torch.from_numpy(states.astype(np.float64)).requires_grad_()
    energy = module.energy(q)
    np.testing.assert_allclose(energy.detach().numpy(), memory.energy(states), rtol=1e-12)
    (slope,) = torch.autograd.grad(energy.sum(), q)
    step = module(q).detach()
    scale = step.norm(dim=1) / slope.norm(dim=1)
    torch.testing.assert_close(step, -slope * scale[:, None])


@pytest.mark.parametrize("rule", [Dense(3), Exponential(0.5)], ids=repr)
def test_gradients_reach_states_patterns_and_values(rule):
    torch.manual_seed(0)
    keys, values = torch.randn(4, 5).double(), torch.randn(4, 3).double()
    module = DenseMemory(keys, rule, values, learned=True)
    q = torch.randn(2, 5).double().requires_grad_()
    inputs = (q, module.patterns, module.values)

    def answer(states, patterns, answers):
        given = {"patterns": patterns, "values": answers}
        return torch.func.functional_call(module, given, (states, 2))

    assert torch.autograd.gradcheck(answer, inputs)
    assert not list(DenseMemory(keys, rule, values).parameters())


def test_one_step_is_attention():
    torch.manual_seed(0)
    q, k, v = torch.randn(6, 8), torch.randn(10, 8), torch.randn(10, 4)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    found = DenseMemory(k, Exponential(8**-0.5), v)(q)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("bad", "argument"),
    [
        ({"rule": "hebb"}, "rule"),
        ({"patterns": torch.ones(3)}, "patterns"),
        ({"values": torch.ones(3, 2)}, "values"),
    ],
)
def test_bad_arguments_name_themselves(bad, argument):
    with pytest.raises(ArgumentError) as error:
        DenseMemory(**{"patterns": torch.ones(2, 4)} | bad)
    assert error.value.argument == argument
    with pytest.raises(ArgumentError, match="steps must be at least 1"):
        DenseMemory(torch.ones(2, 4))(torch.ones(4), steps=0)
