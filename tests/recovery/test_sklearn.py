"""The estimator: what scikit-learn asks of one, pipelines, cross-validation, gaps, thresholds."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import hopfed
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.sklearn import ArchetypeMixture

# These take whatever has probabilities for a classifier, where it takes sparse rows.
SPARSE = dict.fromkeys(
    ("check_estimator_sparse_array", "check_estimator_sparse_matrix"), "it is no classifier"
)


# Of these a few fits each take long.
LONG = ("transformer", "sample_weight", "pipeline", "readonly", "methods_", "estimators_dtypes")


def checks():
    for model, check in estimator_checks_generator(ArchetypeMixture()):
        name = getattr(check, "func", check).__name__
        if name not in SPARSE:
            marks = [pytest.mark.slow] if any(word in name for word in LONG) else ()
            yield pytest.param(model, check, id=name, marks=marks)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of noise
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_it_does_what_scikit_learn_asks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    return draw_examples(rademacher(3, 100, rng), 600, 0.7, rng)


def test_it_is_recover_and_assign(drawn):
    x, labels = drawn
    found = hopfed.recover(x, seed=3)
    model = ArchetypeMixture(random_state=3).fit(x)
    np.testing.assert_array_equal(model.archetypes_.patterns, found.patterns)
    np.testing.assert_array_equal(model.predict(x), found.assign(x, alpha=0).archetype)
    np.testing.assert_array_equal(model.transform(x), found.probabilities(x))
    np.testing.assert_array_equal(model.score_samples(x), found.score(x))
    assert model.score(x) == pytest.approx(found.score(x).mean())
    assert adjusted_rand_score(model.fit_predict(x), labels) > 0.99
    assert model.get_feature_names_out()[1] == "archetypemixture1"
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize("form", [lambda x: x > 0, lambda x: 3.0 * x + 7])
def test_columns_of_two_values_keep_them(drawn, form):
    x, _ = drawn
    model = ArchetypeMixture().fit(form(x))
    np.testing.assert_array_equal(model.predict(form(x)), ArchetypeMixture().fit_predict(x))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_of_numbers_are_cut_where_it_is_said():
    x = np.array([[0, 1, 5.0], [0, 2, 5], [0, 3, 5], [1, 100, np.nan]])
    np.testing.assert_array_equal(ArchetypeMixture().fit(x).thresholds_, [0.5, 2.5, 5])
    np.testing.assert_array_equal(ArchetypeMixture(2).fit(x).thresholds_, [2, 2, 2])
    close = np.array([[1.0, 0], [np.nextafter(1, 2), 1], [1.0, 0], [1.0, 1]])
    cut = ArchetypeMixture().fit(close).thresholds_[0]
    assert ((close[:, 0] > cut) == [False, True, False, False]).all()


def test_gaps_contribute_nothing_and_names_travel(drawn):
    pd = pytest.importorskip("pandas")
    x, labels = drawn
    gaps = np.where(np.random.default_rng(2).random(x.shape) < 0.2, np.nan, x)
    frame = pd.DataFrame(gaps, columns=[f"q{j}" for j in range(100)])
    model = ArchetypeMixture().fit(frame)
    assert model.archetypes_.columns[:2] == ("q0", "q1")
    assert adjusted_rand_score(model.predict(frame), labels) > 0.98
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


@pytest.mark.slow
def test_in_a_pipeline_and_in_cross_validation(drawn):
    x, labels = (each[::2] for each in drawn)
    noisy = x + np.random.default_rng(3).normal(scale=0.3, size=x.shape)
    pipe = make_pipeline(StandardScaler(), ArchetypeMixture(), LogisticRegression())
    assert cross_val_score(pipe, noisy, labels, cv=2).min() > 0.97
    single = np.log(0.5) * 100
    grid = GridSearchCV(ArchetypeMixture(), {"channel": ["symmetric", "graded"]}, cv=2).fit(x)
    assert (grid.cv_results_["mean_test_score"] > single + 20).all()
    assert clone(grid.best_estimator_).channel == grid.best_params_["channel"]


def test_noise_is_a_single_class_with_a_warning():
    x = np.random.default_rng(4).choice([-1.0, 1.0], (200, 30))
    with pytest.warns(ConvergenceWarning, match="one class: No eigenvalue stands"):
        model = ArchetypeMixture().fit(x)
    assert (model.n_archetypes_, model.archetypes_.status) == (1, "one class")
    np.testing.assert_array_equal(model.predict_proba(x), np.ones((200, 1)))


def two_kinds(seed, rows=400, columns=12):
    rng = np.random.default_rng(seed)
    rates = np.where(rng.random((2, columns)) < 0.5, 0.9, 0.15)
    rates[1] = 1.05 - rates[0]
    return rng.random((rows, columns)) < rates[rng.integers(2, size=rows)]


def test_sparse_rows_behind_an_encoder_are_taken():
    """An encoder made 12 columns of yes and no 24 opposite ones, in a sparse matrix."""
    x = two_kinds(1)
    words = np.where(x, "yes", "no")
    model = make_pipeline(OneHotEncoder(), ArchetypeMixture()).fit(words)
    assert (model[-1].n_archetypes_, model[-1].archetypes_.status) == (2, "ok")
    assert model.predict_proba(words[:5]).shape == (5, 2)


def test_missing_values_of_pandas_are_gaps():
    pd = pytest.importorskip("pandas")
    x = two_kinds(2).astype(object)
    x[::7, 3] = pd.NA
    for given in (x, pd.DataFrame(x)):
        model = ArchetypeMixture().fit(given)
        assert (model.n_archetypes_, model.archetypes_.status) == (2, "ok")
