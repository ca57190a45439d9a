"""Evidence, plasticity, what is remembered, votes, support for patterns, and their messages."""

import re
from unittest.mock import Mock

import numpy as np
import pytest
from federations import of_patterns
from helpers import sample
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from hopfed import kernels
from hopfed.federation.contract import Context
from hopfed.federation.messages import bad_form
from hopfed.hopfield import operator_messages, plasticity
from hopfed.hopfield.byzantine_guard import Guard, bound_claims
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.clients import PatternClient, vote
from hopfed.hopfield.example_sources import BatchSource
from hopfed.hopfield.operator_evidence import (
    Counted,
    Evidence,
    Support,
    blend_evidence,
    counting_rule,
)
from hopfed.hopfield.operator_messages import decode, encode, lower_triangle, operator_complaint
from hopfed.hopfield.pattern_memory import PatternMemory
from hopfed.hopfield.pattern_memory import sum_votes as votes_of
from hopfed.hopfield.plasticity import Agreement, Broadcast, Entropy, Fixed, Structure
from hopfed.kernels import pack
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, FactorOperator

N, K, M, R = 120, 3, 200, 0.8


def operator_of(x, factors=0):
    return decode(encode(kernels.pack(x), factors), x.shape[1])


def noise(M, N, *path):
    return np.sign(np.random.default_rng(path).standard_normal((M, N))).astype(np.int8)


def gathered(batches, discount, weights, factors=0):
    """Evidence of one batch a round, all of one client."""
    evidence = Evidence(batches[0].shape[1], factors)
    for x, w in zip(batches, weights, strict=True):
        message = {"columns": x.sum(axis=0).astype(float)}
        own = {0: operator_of(x, factors)}
        evidence = evidence.discounted(discount).extend(own, {0: message}, {0: w})
    return evidence


@given(
    st.floats(0.1, 1),
    st.lists(st.tuples(st.integers(1, 9), st.floats(0.05, 1)), min_size=1, max_size=5),
)
def test_evidence_is_the_weighted_sum_of_its_batches_and_survives_being_flattened(discount, rounds):
    batches = [noise(m, 8, i) for i, (m, _) in enumerate(rounds)]
    evidence = gathered(batches, discount, [w for _, w in rounds])
    fading = [
        w * discount**age for (_, w), age in zip(rounds, range(len(rounds))[::-1], strict=True)
    ]
    total = sum(w * x.T.astype(float) @ x for w, x in zip(fading, batches, strict=True))
    rows = np.concatenate([np.full(len(x), w) for w, x in zip(fading, batches, strict=True)])
    np.testing.assert_allclose(evidence.operator.matrix, total, atol=1e-9)
    np.testing.assert_allclose(evidence.operator.mass, rows.sum())
    np.testing.assert_allclose(evidence.n_examples, rows.sum() ** 2 / (rows**2).sum())
    again = Evidence.unflatten(8, evidence.flatten())
    np.testing.assert_array_equal(again.operator.matrix, evidence.operator.matrix)
    np.testing.assert_array_equal(again.atoms, evidence.atoms)


def test_factors_stay_bounded_over_many_rounds_and_survive_being_flattened():
    evidence = gathered([noise(16, 40, i) for i in range(60)], 0.9, [1.0] * 60, factors=16)
    assert evidence.operator.rows.shape[0] <= 8 * 16
    again = Evidence.unflatten(40, evidence.flatten(), 16)
    X = np.random.default_rng(0).standard_normal((40, 2))
    np.testing.assert_array_equal(again.operator.matmat(X), evidence.operator.matmat(X))


def setting(weights, seed=0, qualities=(R,) * 4, factors=0):
    """Evidence of clients of these weights and qualities, operators, and the archetypes."""
    rng = np.random.default_rng(seed)
    xi = rademacher(K, N, rng)
    evidence, operators = Evidence(N, factors), {}
    for c, w in enumerate(weights):
        x = draw_examples(xi, M, qualities[c], rng)[0]
        operators[c] = operator_of(x, factors)
        message = {"columns": x.sum(axis=0).astype(float)}
        evidence = evidence.extend({c: operators[c]}, {c: message}, {c: w})
    return evidence, operators, xi


def test_the_common_scale_gives_both_sides_a_mean_signal_eigenvalue_of_one():
    evidence, _, xi = setting([0.5, 0.5])
    both, quality = blend_evidence(evidence, xi, {0: 0.5, 1: 0.5}, 1e-3)
    np.testing.assert_allclose(quality, R, rtol=0.05)
    added = both.matmat(np.eye(N)) - evidence.operator.matmat(np.eye(N))
    np.testing.assert_allclose(np.linalg.eigvalsh(added)[-K:].mean(), N * R**2 / K, rtol=0.1)


@pytest.mark.parametrize("factors", [0, 60])
@pytest.mark.parametrize("memory", ["separate", "common"])
def test_fresh_evidence_alone_is_counted_right_under_every_memory(memory, factors):
    evidence, operators, xi = setting([0.9, 0.9], factors=factors)
    counted = Counted.of(evidence, operators, {0: 0.9, 1: 0.9}, 1e-3, memory, xi[:2])
    assert counted.rank.n_detected == K
    assert counted.spectrum.vectors.shape == (N, K)
    np.testing.assert_allclose(list(counted.variances.values()), 1 - R**2, rtol=0.1)


def test_a_noisy_client_does_not_raise_the_count():
    evidence, operators, xi = setting([1.0] * 3, seed=3, qualities=(0.95, 0.95, 0.0))
    counted = Counted.of(
        evidence, operators, dict.fromkeys(operators, 1.0), 1e-3, "separate", xi[:0]
    )
    assert counted.rank.n_detected == K
    values = np.linalg.eigvalsh(evidence.operator.matrix / evidence.operator.mass)[::-1]
    assert counting_rule(evidence, 1e-3)(values, True) > K
    variances = [counted.variances[c] for c in range(3)]
    np.testing.assert_allclose(variances, [0.0975, 0.0975, 1], atol=0.03)


SITES = 64


def patterns(K, seed=0):
    return rademacher(K, SITES, np.random.default_rng(seed))


def flipped(pattern, count):
    x = pattern.copy()
    x[np.random.default_rng(0).permutation(SITES)[:count]] *= -1
    return x


def memory(x, t=0, sure=0.5):
    return PatternMemory.of(x, np.full(len(x), sure), t)


def votes(sums, voters):
    """Votes of examples of weight 1."""
    voters = np.asarray(voters, dtype=float)
    return np.asarray(sums, dtype=float), voters, voters


@pytest.mark.parametrize(("r", "M"), [(0.3, 30), (0.6, 1), (0.6, 4), (0.8, 9)])
def test_votes_promise_what_their_signs_hold(r, M):
    n = 4000
    rng = np.random.default_rng(M)
    xi = rademacher(1, n, rng)
    sums = draw_examples(xi, M, r, rng)[0].sum(axis=0, keepdims=True)
    ties = xi * rng.permutation(np.repeat([1, -1], n // 2))  # overlap 0: what ties leave
    after = memory(ties.astype(np.int8), sure=0.0).vote(votes(sums, [M]), r, slice(None))
    overlap = float(after.patterns[0].astype(float) @ xi[0]) / n
    assert overlap - 0.1 < after.sure[0] < overlap + 0.05


@pytest.mark.parametrize(
    ("sign", "promise", "taken"), [(1, 0.6, True), (-1, 0.6, True), (1, 0.4, 0)]
)
def test_a_pattern_is_renewed_by_what_is_surer(sign, promise, taken):
    x = patterns(2)
    better = flipped(x[0], 10)
    known = memory(x, 3, sure=0.5).confirm(np.array([True, True]), 5)
    after = known.renew(sign * better[None], np.array([promise]), np.array([0, -1]))
    np.testing.assert_array_equal(after.patterns, [better if taken else x[0], x[1]])
    np.testing.assert_allclose(after.sure, [promise if taken else 0.5, 0.5])


@pytest.mark.parametrize("sign", [1, -1])
def test_patterns_that_turn_out_to_be_one_are_merged_into_the_oldest(sign):
    x = patterns(3)
    near = np.stack([sign * flipped(x[0], 8), x[2]])
    known = memory(x[:2], 1).learn(near, np.full(2, 0.5), 4)
    known = known.confirm(np.array([True, True, False, True]), 4)
    known = known.confirm(np.array([False, False, True, False]), 6)
    sums = np.stack([20.0 * x[0], 10.0 * x[1], sign * 30.0 * x[0], 10.0 * x[2]])
    after = known.vote(votes(sums, [20, 10, 30, 10]), 0.8, slice(None)).merged()
    np.testing.assert_array_equal(after.patterns, x)
    np.testing.assert_array_equal(after.votes[0], 50.0 * x[0])
    for name, values in (("voters", [50, 10, 10]), ("seen", [6, 4, 4]), ("rounds", [1, 1, 1])):
        np.testing.assert_array_equal(getattr(after, name), values)


def said(sums, voters):
    return {"votes": np.asarray(sums, np.int64), "voters": np.asarray(voters, np.int64)}


@given(st.integers(-(10**6), 10**6), st.integers(-50, 50), st.integers(-50, 50))
def test_no_client_has_more_votes_than_examples(loud, first, second):
    message = said(np.full((2, 30), loud), [first, second])
    sums, voters, _ = votes_of({0: message}, {0: 1.0}, {0: 20}, (2, 30))
    assert np.abs(sums).sum(axis=0).max() <= 20 + 1e-9
    heard = min(first + second, 20) if min(first, second) >= 0 else 0
    assert voters.sum() == pytest.approx(heard)
    assert (np.abs(sums) <= voters[:, None] + 1e-9).all()


@given(st.integers(3, 9), st.integers(0, 99))
def test_a_few_that_lie_do_not_turn_a_site(clients, seed):
    """Whatever they say, a site on which the others agree keeps their sign."""
    rng = np.random.default_rng(seed)
    liars = (clients - 1) // 2
    truth = rng.choice([-1, 1], 30)
    honest = {c: said([5 * truth], [9]) for c in range(clients)}
    lies = {c: said([rng.integers(-20, 21, 30)], [20]) for c in range(liars)}
    everyone = dict.fromkeys(honest, 1.0), dict.fromkeys(honest, 20), (1, 30)
    assert (np.sign(votes_of(honest | lies, *everyone, liars)[0][0]) == truth).all()
    plain, same = votes_of(honest, *everyone), votes_of(honest, *everyone, liars)
    np.testing.assert_allclose(same[0], plain[0])
    np.testing.assert_allclose(same[1], plain[1])


def measure(batches, patterns, qualities, weights):
    operators = [DenseOperator.from_examples(kernels.pack(x)) for x in batches]
    return Support.of(operators, patterns, weights, 1 - np.square(qualities))


def test_scores_of_patterns_that_nobody_sees_are_standard_normal():
    """Mean 0 and variance 1 over 40 draws of 25 patterns, with archetypes beside them."""
    sizes, qualities, weights, scores = (400, 100, 50), (0.9, 0.5, 0.1), (1.0, 0.3, 2.0), []
    for seed in range(40):
        rng = np.random.default_rng((seed, 7))
        xi, unseen = rademacher(3, 100, rng), rademacher(25, 100, rng)
        draws = zip(sizes, qualities, strict=True)
        batches = [draw_examples(xi, M, r, rng)[0] for M, r in draws]
        support = measure(batches, np.concatenate([xi, unseen]), qualities, weights)
        scores.append(support.scores()[3:])
    z = np.ravel(scores)
    assert abs(z.mean()) < 0.12
    assert 0.9 < z.std() < 1.1


def test_without_the_strongest_supporters_only_what_others_show_is_left():
    """Pattern 0 is everybody's, 1 that of one client, 2 that of two."""
    xi = rademacher(3, 100, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    held = [[0, 1, 2], [0, 2], [0], [0], [0], [0]]
    batches = [draw_examples(xi[mine], 300, 0.7, rng)[0] for mine in held]
    support = measure(batches, xi, [0.7] * 6, [1.0] * 6)
    assert (support.scores() > 3).all()
    assert (support.doubted(0) > 3).all()
    assert (support.doubted(1) > 3).tolist() == [True, False, True]
    assert (support.doubted(2) > 3).tolist() == [True, False, False]
    assert ((support.alone() > 3) == [[k in mine for k in range(3)] for mine in held]).all()


def project(x, V, seed):
    client = PatternClient(Mock(examples=lambda *_: kernels.pack(x)), x.shape[1], groups=4)
    return client.client_step({}, {"basis": V}, Context(seed, 0, 1, 0))[1]


def rows_of(M, N, seed, kind="channel"):
    """Examples of archetypes, of nothing, all alike, of two kinds, or in pairs of opposites."""
    rng = np.random.default_rng(seed)
    noise = rademacher(M, N, rng)
    return {
        "channel": lambda: draw_examples(rademacher(3, N, rng), M, 0.8, rng)[0],
        "noise": lambda: noise,
        "alike": lambda: np.repeat(noise[:1], M, axis=0),
        "few": lambda: noise[rng.integers(0, min(2, M), M)],
        "opposite": lambda: noise[:1] * np.where(np.arange(M) % 2, 1, -1)[:, None].astype(np.int8),
    }[kind]()


KINDS = st.sampled_from(("channel", "noise", "alike", "few", "opposite"))


def told(x, factors=0):
    columns = x.sum(axis=0, dtype=np.int32)
    return encode(kernels.pack(x), factors) | {"columns": columns, "weight": np.array(1.0)}


def spec(N, factors):
    return of_patterns(None, N, factors=factors).client.expects({}, Context(0, 0, 0, 0))


@given(st.sampled_from((0, 8)), KINDS, st.integers(1, 80), st.integers(2, 50), st.integers(0, 99))
def test_what_rows_give_is_never_refused(factors, kind, M, N, seed):
    x, factors = rows_of(M, N, seed, kind), min(factors, N)
    sent = told(x, factors)
    assert bad_form(sent, spec(N, factors)) is None
    decoded = decode(sent, N)
    if not factors:
        np.testing.assert_array_equal(decoded.matrix, x.T.astype(int) @ x)
    assert decoded.mass == decoded.sum_sq_weights == M
    assert operator_complaint(sent, factors, check=False) is None
    assert operator_complaint(sent, factors, check=True) is None
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((N, min(3, N))))[0]
    projected = project(x, V, seed)
    exact = V.T @ (x.T.astype(float) @ x) @ V
    assert operator_messages.projections_complaint(projected, M, N, exact, check=True) is None
    votes = vote(kernels.pack(x), Broadcast(rows_of(2, N, seed, "noise"), 0.5), np.ones(2))
    assert operator_messages.votes_complaint(votes, M) is None


def lies():
    N, M = 40, 60
    x = rows_of(M, N, 1)
    S = x.T.astype(int) @ x
    rng = np.random.default_rng(2)
    even = rng.integers(-M // 2, M // 2, (N, N)) * 2
    other, c = "not those of any examples", x.sum(axis=0)
    return [
        (S + 1, c, other),
        (S + 0.5, c, "not whole numbers"),
        (np.tril(even) + np.tril(even, -1).T, c, other),
        (-S, c, other),
        (S, c + 1, "parity of examples"),
        (S, 60 - 2 * np.arange(40) % 60, other),
        (S, 4 - c, "negative eigenvalue"),
    ]


@pytest.mark.parametrize(("S", "columns", "words"), lies())
def test_counts_and_columns_that_no_rows_have_are_refused(S, columns, words):
    sent = told(rows_of(60, 40, 1)) | {
        "columns": columns,
        "counts": np.clip(lower_triangle(S), -60, 60),
    }
    assert re.search(words, operator_complaint(sent, 0, check=True))
    assert operator_complaint(sent, 0, check=False) is None


def test_factors_that_no_rows_have_are_refused():
    for values, vectors in ((30.0, {}), (2.0, {"vectors": np.eye(4, 40, dtype=np.float32)})):
        sent = told(rows_of(60, 40, 1), 4) | {"values": np.full(4, values, "f4")} | vectors
        assert bad_form(sent, spec(40, 4)) is None
        assert "more than its examples" in operator_complaint(sent, 4, check=False)
    long = told(rows_of(60, 40, 1), 9)
    assert operator_complaint(long, 4, check=False) == "values are 9, more than 4"
    short = sent | {"values": sent["values"][:2]}
    assert bad_form(short, spec(40, 4)) == "values and vectors are of 2 and 4 factors"


def test_factors_have_the_leading_eigenpairs():
    x = rows_of(150, 200, 0)
    honest = encode(kernels.pack(x), 40)
    decoded = decode(honest, 200)
    exact, found = (eigenpairs(op, 3) for op in (FactorOperator.from_examples(x), decoded))
    np.testing.assert_allclose(found.values[:3], exact.values[:3], rtol=1e-6)
    assert np.linalg.svd(exact.vectors.T @ found.vectors)[1].min() > 1 - 1e-6
    np.testing.assert_array_equal(decoded.weights, honest["values"].astype(float) * 150)


def grouped(seed=0, M=60, N=40, K=3):
    x = rows_of(M, N, seed)
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((N, K)))[0]
    return project(x, V, seed), V.T @ (x.T.astype(float) @ x) @ V


def test_projections_that_no_rows_have_are_refused():
    sent, expected = grouped()
    sizes, sums = sent["sizes"], sent["groups"]
    always = [{"sizes": s} for s in (np.full(4, 2**62), sizes * [1, -1, 1, 1], sizes + 1)]
    always.append({"groups": sums * 1e30})
    checked = [{"groups": g} for g in (sums * 2, -sums, grouped(seed=7)[0]["groups"])]
    for change in always + checked:
        told_ = sent | change
        assert (
            operator_messages.projections_complaint(told_, 60, 40, expected, check=True) is not None
        )
        refused = (
            operator_messages.projections_complaint(told_, 60, 40, None, check=False) is not None
        )
        assert refused == any(change is each for each in always)
    # What the groups of a client add up to is not known of factors.
    negative = operator_messages.projections_complaint(sent | checked[1], 60, 40, None, check=True)
    assert negative == "groups have a negative eigenvalue"


def test_votes_that_no_rows_cast_are_refused():
    small = ([5, 1], 3), ([2, 1], 3), ([1, 1], -3)
    for votes, voters in (*small, ([-(2**63), 0], 0), ([2**62, 0], 2**62)):
        message = {"votes": np.array([votes]), "voters": np.array([voters])}
        assert operator_messages.votes_complaint(message, 9) is not None


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.floats(1, 5))
def test_a_client_counts_for_no_more_than_a_multiple_of_the_median(sizes, most):
    """The lower one: of two clients the one that claims more does not choose the bound."""
    heard = bound_claims(
        {c: {"examples": np.asarray(m)} for c, m in enumerate(sizes)}, Guard(claim=most)
    )
    limit = most * np.sort(sizes)[(len(sizes) - 1) // 2]
    np.testing.assert_allclose([heard[c]["examples"] for c in heard], np.minimum(sizes, limit))


@pytest.mark.parametrize("factors", [0, 8])
def test_the_operator_of_a_client_that_is_cut_is_the_same_of_fewer_examples(factors):
    sent = {m: told(rows_of(m, 24, m), factors) for m in (10, 12, 80)}
    heard = bound_claims(sent, Guard(claim=2.0))[80]
    whole, part = decode(sent[80], 24), decode(heard, 24)
    assert part.mass == part.n_examples == 24
    np.testing.assert_allclose(part.matmat(np.eye(24)), whole.matmat(np.eye(24)), atol=1e-6)
    np.testing.assert_allclose(heard["columns"] / 24, sent[80]["columns"] / 80)


def dense_agreement(eta, xi):
    """(46) as it is written, with N x N arrays."""
    A, B = (np.sign(x.T.astype(float) @ x) for x in (xi, eta))
    pairs = np.triu_indices(xi.shape[1], 1)
    return ((1 + A * B) / 2)[pairs].mean()


@given(st.integers(1, 6), st.integers(2, 40), st.integers(1, 70), st.integers(0, 2**32))
def test_all_pairs_are_the_definition(K, N, M, seed):
    rng = np.random.default_rng(seed)
    xi, eta = rademacher(K, N, rng), rademacher(M, N, rng)
    p = plasticity.sign_agreement(pack(eta), xi)
    assert p == pytest.approx(dense_agreement(eta, xi), abs=1e-12)


@given(st.integers(1, 400), st.floats(0, 1))
def test_one_archetype_is_the_binomial_majority(M, r):
    x = (1 + r**2) / 2
    want = binom.sf(M / 2, M, x) + (binom.pmf(M // 2, M, x) / 2 if M % 2 == 0 else 0)
    xi = np.ones((1, 7), np.int8)
    assert plasticity.expected_agreement(r, M, xi) == pytest.approx(want, abs=1e-9)
    assert plasticity.expected_agreement(r, M, xi, exposures=np.ones(1)) == pytest.approx(
        want, abs=1e-9
    )


EVERY = [Fixed(0.3), Entropy(), Agreement(), Structure()]
SIZES = [(300, 800), (1000, 400)]  # (N, M) on either side of q = 1


def batch(N, M, quality, seed, *, old=1.0, K=3, new=3):
    """Examples, a share `old` of them from the K remembered archetypes, and those archetypes."""
    exposures = np.r_[np.full(K, old / K), np.full(new, (1 - old) / new)]
    xi, eta = sample(K + new, N, M, quality, seed, exposures=exposures)
    return pack(eta), xi[:K]


@given(
    *(st.integers(1, 6), st.integers(2, 40), st.integers(1, 70), st.integers(0, 2**32)),
    st.floats(0.01, 1),
)
def test_weights_and_shares_stay_in_their_ranges(K, N, M, seed, quality):
    rng = np.random.default_rng(seed)
    xi = rademacher(K, N, rng)
    known = draw_examples(xi, M, rng.random(), rng)[0]  # some of the examples are near them
    eta = np.where(rng.random((M, 1)) < rng.random(), known, rademacher(M, N, rng))
    for rule_ in EVERY:
        assert 0 <= rule_(pack(eta), Broadcast(xi, quality), 1) <= 1
    shares = plasticity.explained_variance(pack(eta), xi)
    assert min(shares) >= 0
    assert sum(shares) <= 1 + 1e-9


NIL, ONE = pytest.approx(0, abs=0.06), pytest.approx(1, abs=0.02)
FAMILIAR = pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("N", "M"), SIZES)
@pytest.mark.parametrize(
    ("quality", "old", "entropy", "agreement", "structure"),
    [
        (0.0, 1.0, ONE, NIL, NIL),  # noise
        (0.9, 0.0, ONE, NIL, ONE),  # novelty, which neither of the first two tells from it
        (0.9, 1.0, pytest.approx(0, abs=1e-9), pytest.approx(1, abs=1e-9), FAMILIAR),
    ],
)
def test_the_papers_rules_contradict_each_other_on_noise(
    N, M, quality, old, entropy, agreement, structure
):
    """At p = 1/2 the entropy rule follows the noise, the agreement rule shuts it out."""
    for seed in range(2):
        rows, xi = batch(N, M, quality, seed, old=old)
        rules = Entropy(), Agreement(), Structure()
        weights = [rule_(rows, Broadcast(xi, 0.9), seed) for rule_ in rules]
        assert weights == [entropy, agreement, structure]


@pytest.mark.parametrize(("N", "M"), SIZES)
@pytest.mark.parametrize(("quality", "old"), [(0.9, 1.0), (0.5, 0.3), (0.3, 0.0)])
def test_structure_reads_the_shares_of_a_mixture(N, M, quality, old):
    batches = [batch(N, M, quality, seed, old=old) for seed in range(5)]
    # sampling of the labels: .5 / sqrt(400) = .025 for one batch, five here
    memory, novelty = np.mean(
        [plasticity.explained_variance(rows, xi) for rows, xi in batches], axis=0
    )
    assert memory == pytest.approx(old * quality**2, abs=0.04 * quality**2)
    assert novelty == pytest.approx((1 - old) * quality**2, abs=0.04 * quality**2)
    weight = np.mean([Structure()(rows, Broadcast(xi, quality), 0) for rows, xi in batches])
    assert weight == pytest.approx(0.5 + 0.5 * (1 - old), abs=0.03)


def test_smoothing_by_hand():
    rows = rademacher(4, 40, np.random.default_rng(0))
    for before, weight in (({}, 1.0), ({"plasticity": np.array(0.2)}, 0.6)):
        client = PatternClient(BatchSource((pack(rows),)), 40, Fixed(1.0), ema=0.5)
        state, message, _ = client.client_step(before, {}, Context(0, 0, 0, 0))
        assert state["plasticity"] == message["weight"] == pytest.approx(weight)
