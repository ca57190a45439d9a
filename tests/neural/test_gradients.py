"""Gradients in conflict: the closed forms against solvers, and optimizers that go on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.neural.gradients import inner, pcgrad, project  # noqa: E402
from hopfed.neural.training.optimizers import OPTIMIZERS, of_client, stack  # noqa: E402

numbers = st.floats(-10, 10, allow_subnormal=False).map(lambda v: 0.0 if abs(v) < 1e-3 else v)
pairs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(*[st.lists(numbers, min_size=n, max_size=n)] * 2)
)


def named(vector):
    """A gradient of two parameters, the first with the first half of the numbers."""
    vector = torch.as_tensor(vector, dtype=torch.float64)
    return {"w": vector[: len(vector) // 2], "b": vector[len(vector) // 2 :]}


def flat(gradient):
    return torch.cat(list(gradient.values())).numpy()


@given(pairs)
def test_the_projection_never_points_against_the_local_gradient(pair):
    public, local = map(named, pair)
    found = project(public, local)
    scale = np.linalg.norm(pair[0]) * np.linalg.norm(pair[1])
    assert float(inner(found, local)) >= -1e-14 * scale  # 0 up to rounding
    if float(inner(public, local)) >= 0:
        assert all(torch.equal(found[n], public[n]) for n in public)


@settings(max_examples=40)
@given(pairs)
def test_the_projection_solves_the_quadratic_program_and_its_dual(pair):
    public, local = map(np.asarray, pair)
    found = flat(project(named(public), named(local)))
    primal = minimize(
        lambda z: ((z - public) ** 2).sum() / 2,
        np.zeros_like(public),
        jac=lambda z: z - public,
        constraints={"type": "ineq", "fun": lambda z: local @ z, "jac": lambda z: local},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(found, primal.x, atol=1e-5)
    v, _ = nnls(local[:, None], -public)  # (14): the v of least |v g_loc + g_pub|^2
    np.testing.assert_allclose(found, public + v * local, atol=1e-10)


@given(pairs, st.integers(0, 2**31))
def test_nothing_allowed_is_nearer_than_the_projection(pair, seed):
    public, local = map(np.asarray, pair)
    found = flat(project(named(public), named(local)))
    z = public + np.random.default_rng(seed).normal(size=(50, len(public)))
    allowed = z[z @ local >= 0]
    far = np.linalg.norm(allowed - public, axis=1)
    assert (far >= np.linalg.norm(found - public) - 1e-12).all()


@given(pairs)
def test_pcgrad_is_the_sum_of_both_surgeries(pair):
    public, local = map(np.asarray, pair)
    found = flat(pcgrad(named(public), named(local)))
    expected = public + local
    if public @ local < 0:
        expected -= public @ local / (local @ local) * local
        expected -= public @ local / (public @ public) * public
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_clients_stacked_are_projected_one_by_one():
    rng = np.random.default_rng(0)
    public, local = rng.normal(size=(2, 8, 5))
    stacked = torch.func.vmap(lambda p, g: project({"w": p}, {"w": g})["w"])(
        torch.as_tensor(public), torch.as_tensor(local)
    )
    alone = [flat(project(named(p), named(g))) for p, g in zip(public, local, strict=True)]
    conflicts = (public * local).sum(axis=1) < 0
    assert 0 < conflicts.sum() < 8
    np.testing.assert_allclose(stacked.numpy(), alone, atol=1e-12)


# Optimizers that go on from a state


def made(name):
    return OPTIMIZERS[name](lr=0.1, momentum=0.9, weight_decay=0.01)


def run(optimizer, params, gradients):
    for gradient in gradients:
        optimizer.step(params, [g.clone() for g in gradient])


def gradients(steps, *lead, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (*lead, 3), (*lead, 2, 2)
    return [[torch.as_tensor(rng.normal(size=s)) for s in shapes] for _ in range(steps)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_goes_on_as_if_it_had_never_stopped(name):
    steps = gradients(5)
    once = [torch.ones(3).double(), torch.ones(2, 2).double()]
    twice = [p.clone() for p in once]
    first = made(name)
    run(made(name), once, steps)
    run(first, twice, steps[:2])
    state = {n: t.clone() for n, t in first.state().items()}
    second = made(name)
    second.resume(state)
    run(second, twice, steps[2:])
    for a, b in zip(once, twice, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    for n, t in first.state().items():
        assert torch.equal(t, state[n]), "the state that was given must stay as it is"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_stacked_states_are_those_of_the_clients_also_of_one_that_leaves_early(name):
    steps = gradients(4, 2)
    begun, moved, ended = [], [], []
    for client, count in enumerate((4, 3)):
        own = [[g[client] for g in gradient] for gradient in steps]
        params = [torch.ones(3).double(), torch.ones(2, 2).double()]
        optimizer = made(name)
        run(optimizer, params, own[:1])
        begun.append({n: t.clone() for n, t in optimizer.state().items()})
        moved.append([p.clone() for p in params])
        run(optimizer, params, own[1:count])
        ended.append(optimizer.state())
    together = made(name)
    together.resume(stack(begun))
    params = [torch.stack(both) for both in zip(*moved, strict=True)]
    run(together, params, steps[1:3])
    run(together, [p[:1] for p in params], [[g[:1] for g in steps[3]]])
    for client, early in ((0, 0), (1, 1)):
        found = of_client(together.state(), client, early)
        assert found.keys() == ended[client].keys()
        for n, t in ended[client].items():
            torch.testing.assert_close(found[n], t)


def test_an_optimizer_without_a_state_begins_anew():
    for name in OPTIMIZERS:
        optimizer = made(name)
        optimizer.resume({})
        assert optimizer.state() == {}
