"""Questions without trust, a search without end, and folders that others can write to."""

import json

import numpy as np
import pytest
from asking import ask, method, refused, rows_in, signs, site
from flwr.supercore.primitives.asymmetric import generate_key_pairs
from liars import owners

from hopfed._lib.settings import to_plain
from hopfed.archetypes.annealed_search import Search, search_candidates
from hopfed.archetypes.subspace import Subspace
from hopfed.cli import main
from hopfed.data.channel import draw_examples, rademacher
from hopfed.data.readers import as_examples
from hopfed.errors import ArgumentError, BackendError, DataError, LocalError
from hopfed.experiments import serve
from hopfed.experiments.shared.kept_networks import read
from hopfed.federation.engines import Outcome
from hopfed.federation.engines.flower.client import client_folder
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.faults import Fault
from hopfed.hopfield import server
from hopfed.hopfield.client import unpack_patterns
from hopfed.hopfield.liars import leave_one_out as trimmed
from hopfed.hopfield.liars.leave_one_out import FEWEST, MOST
from hopfed.hopfield.site.budget import Ledger, Terms
from hopfed.hopfield.site.consent import Owner
from hopfed.hopfield.site.limits import Limits
from hopfed.hopfield.site.released import Released
from hopfed.memory.layered import LayeredMemory
from hopfed.neural.training.sequential import _keep_compiled_at_home
from hopfed.runs import Run

N, M, GROUPS, EACH, BITS = 40, 2_000, 4, 3, 5  # columns in a direction, and bits of each


def pairs():
    """Rows whose first two columns differ in three of them, and the next two in one in 200."""
    rows, few = signs(M, N).copy(), np.array([17, 801, 1402])
    rows[:, 1], rows[:, 3] = rows[:, 0], rows[:, 2]
    rows[few, 1] *= -1
    rows[np.arange(100, M, 200), 3] *= -1
    return rows, few


def directions():
    """One that adds both pairs, and others that hold the remaining columns as digits."""
    basis = np.zeros((N, 1 + -(-(N - 2) // EACH)))
    basis[:4, 0] = np.array([1, -1, 2, -2]) / 4
    for i, column in enumerate(range(2, N)):
        basis[column, 1 + i // EACH] = 2.0 ** -(1 + BITS * (i % EACH))
    return basis.astype("f4")


def read_off(sums, width):
    """Guess the row of each group that is alone among those of the first pair."""
    guesses = set()
    for triangle in sums.astype(float):
        table = np.zeros((width, width))
        table[np.tri(width, dtype=bool)] = triangle
        both = round(table[0, 0] * 4)  # one for a row of the first pair, four for one of the second
        alone, others = both % 4, both // 4
        if alone != 1:
            continue
        found = []
        for told in table[1:, 0] * 2 * 2.0 ** (1 + BITS * (EACH - 1)):
            left, digits = round(told), []
            for _ in range(EACH):
                digit = (left + 2 ** (BITS - 1)) % 2**BITS - 2 ** (BITS - 1)
                digits.append(1 if ((digit - 1) // 2 - others) % 2 == 0 else -1)
                left = (left - digit) >> BITS
            found += digits[::-1]
        row = np.array([1, -1, *found[: N - 2]])
        guesses |= {tuple(row), tuple(-row)}
    return guesses


def test_a_server_that_is_trusted_reads_a_row_off_digit_by_digit_and_no_other_does(tmp_path):
    rows, few = pairs()
    basis, asked = directions(), method(groups=GROUPS)

    def guesses(**limits):
        node = site(tmp_path / str(limits), rows, smallest_batch=0, **limits)
        started = ask(node, asked)
        assert not started.fault, started.reason
        assert set(started.up) == {"examples", "counts", "columns", "weight"}
        return ask(node, asked, 0, 1, started.state, {"basis": basis})

    reply = guesses(trust_server=True)
    assert not reply.fault, reply.reason
    assert (reply.up["sizes"] > 0).sum() > 1
    assert rows_in(rows[few], read_off(reply.up["groups"], basis.shape[1])) >= 1
    refused(guesses(trust_server=False), "join --questions N, with --trust-server")


def test_questions_need_trust_in_the_server(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    np.save(tmp_path / "mine.npy", signs(400))
    arguments = ["join", "--data", str(tmp_path / "mine.npy"), "--questions", "1"]

    def failed(*more):
        with pytest.raises(SystemExit) as end:
            main([*arguments, *more])
        assert end.value.code == 2
        return " ".join(capsys.readouterr().err.split())

    words = failed()
    assert "--questions must be given with --trust-server" in words
    assert "can learn single rows" in words
    assert "--server must be given" in failed("--trust-server")
    main([*arguments, "--dry-run"])
    words = " ".join(capsys.readouterr().out.split())
    assert "can learn single rows" in words
    assert "So it needs --trust-server" in words
    assert "votes, voters" in words


class Sites:
    """An engine whose clients answer what their owners agree to."""

    def __init__(self, owners):
        self.owners, self.refused = owners, set()

    def step(self, made, calls):
        return [self._one(made, call) for call in calls]

    def _one(self, made, call):
        try:
            agreed = self.owners[call.context.client].adapt(made)
            return Outcome(*agreed.client_step(call.state, call.down, call.context))
        except DataError as error:
            self.refused.add((call.context.exchange, str(error)))
            return Outcome(fault=Fault.RAISED, reason=str(error))


def test_who_does_not_trust_takes_part_with_operators_where_questions_are_asked():
    rng = np.random.default_rng(0)
    xi = rademacher(3, N, rng)
    rows = [as_examples(draw_examples(xi, 500, 0.8, rng)[0]) for _ in range(3)]
    limits = Limits(questions=1, smallest_batch=50)
    engine = Sites([Owner(x, 1 + c, limits=limits) for c, x in enumerate(rows)])
    config = serve.Config(columns=N, clients=3, minimum=3, groups=4, votes=True)
    arrays, _ = serve.play(config, config.make(), 0, 0, None, engine)
    assert int(arrays["archetypes/number"]) == 3
    (exchange, words), *more = engine.refused
    assert exchange == 1
    assert "with --trust-server" in words
    assert not more


def shared(folder):
    """Make a folder that other accounts can write to."""
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_nothing_is_made_in_a_home_that_others_can_write_to(tmp_path, monkeypatch):
    home, (_, public) = shared(tmp_path / "home"), generate_key_pairs()
    with pytest.raises(ArgumentError, match="others own it or can write to it"):
        client_folder(home, public)
    monkeypatch.setenv("HOPFED_HOME", str(home))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with pytest.raises(BackendError, match="others own it or can write to it"):
        _keep_compiled_at_home()
    assert not list(home.iterdir())
    home.chmod(0o700)
    for each in (home / "sites", home / "compiled"):
        each.symlink_to(shared(tmp_path / each.name))
    with pytest.raises(ArgumentError, match="a link is in its place"):
        client_folder(home, public)
    with pytest.raises(BackendError, match="others own it or can write to it"):
        _keep_compiled_at_home()
    for each in (home / "sites", home / "compiled"):
        assert not list(each.iterdir())
        each.unlink()
    assert client_folder(home, public).is_dir()


@pytest.mark.parametrize("linked", [False, True])
def test_no_record_nor_ledger_is_kept_where_others_can_write(tmp_path, linked):
    rows, place = as_examples(signs(60)), shared(tmp_path / "place")
    folder = tmp_path / "linked" if linked else place
    if linked:
        folder.symlink_to(place)
    with pytest.raises(LocalError, match="others own it or can write to it"):
        Released.of(folder, rows)
    with pytest.raises(LocalError, match="others own it or can write to it"):
        Ledger(folder).charge(rows, Terms(1.0, 1e-5))
    assert not list(place.iterdir())
    place.chmod(0o700)  # one's own links are followed to one's own folders
    Released.of(folder, rows).deal(1)
    Ledger(folder).charge(rows, Terms(1.0, 1e-5))
    assert {path.stat().st_mode & 0o77 for path in place.iterdir()} == {0}


def test_no_lock_is_made_through_a_link(tmp_path):
    rows, away = as_examples(signs(60)), tmp_path / "away"
    record = Released.of(tmp_path / "released", rows)
    lock = record.path.with_suffix(".lock")
    lock.unlink(missing_ok=True)
    (tmp_path / "privacy").mkdir(mode=0o700)
    for link in (lock, tmp_path / "privacy" / "lock"):
        link.symlink_to(away)
    with pytest.raises(LocalError, match="cannot be used"):
        record.deal(1)
    with pytest.raises(LocalError, match="cannot be used"):
        Ledger(tmp_path / "privacy").charge(rows, Terms(1.0, 1e-5))
    assert not away.exists()


def table(K, rows, quality=0.9):
    """Make rows of archetypes of one's own."""

    def make(xi, rng):
        return draw_examples(rademacher(K, xi.shape[1], rng), rows, quality, rng)[0]

    return make


def test_what_one_client_ships_does_not_make_the_search_long(monkeypatch):
    """Of ten clients one has 40 archetypes of its own: the other nine were left out in turn."""
    columns, honest, own = 200, 3, 40
    xi, source = owners([table(own, 600)], 9, N=columns, M=400, K=honest)
    searches, fits = [], []
    real, fit = server.factorize, trimmed.nnls

    def counting(spectrum, rank, **options):
        searches.append((rank.n_detected, options["search"].most))
        return real(spectrum, rank, **options)

    def fitting(design, target):
        fits.append(design.shape)
        return fit(design, target)

    monkeypatch.setattr(server, "factorize", counting)
    monkeypatch.setattr(trimmed, "nnls", fitting)
    config = serve.Config(columns=columns, clients=10)
    arrays, _ = serve.play(config, config.make(source), 0, 0, None, LocalEngine())
    told = unpack_patterns(arrays["archetypes/packed"][: int(arrays["archetypes/number"])], columns)
    assert sorted(np.abs(told @ xi.T.astype(int)).max(axis=0)) == [columns] * honest
    assert len(told) == honest
    directions = np.array(searches)[:, 0]
    assert directions[0] > own, "nothing to bound"
    assert directions[1:].sum() <= MOST * FEWEST + directions[0], (
        "directions of the others' searches"
    )
    assert max(most for _, most in searches) == FEWEST * server.EFFORT
    assert max(rows for rows, _ in fits) <= directions.max(), "as many numbers as directions"
    assert (
        f"the search is bounded: without the clients that show most, {honest} of "
        f"{int(directions[0])} directions are left"
    ) in serve.remarks(arrays)


def test_where_others_show_as_much_nothing_is_bounded():
    _, source = owners([table(3, 600)], 9, N=200, M=400, K=20)
    config = serve.Config(columns=200, clients=10)
    arrays, _ = serve.play(config, config.make(source), 0, 0, None, LocalEngine())
    assert int(arrays["archetypes/number"]) == 20
    assert np.isnan(arrays["shown"])
    assert "bounded" not in " ".join(serve.remarks(arrays))


@pytest.mark.parametrize(("most", "passes"), [(1, 1), (32 * 150 * 40 + 1, 2), (np.inf, 3)])
def test_a_search_gives_up_after_so_many_steps(most, passes):
    """In a space of 40 directions, where it would go on."""
    rng, made = np.random.default_rng(0), []
    vectors = np.linalg.qr(rng.standard_normal((200, 40)))[0]
    space = Subspace(vectors, np.full(40, 20.0), np.full(40, 0.9), 0.1)

    class Counting(LayeredMemory):
        def run(self, *arguments, **options):
            made.append(1)
            return super().run(*arguments, **options)

    memory = Counting(layers=1, order="serial")
    search_candidates(space, Search(memory=memory, most=most), 0)
    assert len(made) == passes or (most == np.inf and len(made) >= passes)


def test_kept_networks_of_more_classes_than_their_files_hold_are_refused(tmp_path):
    about = {"method": "fedavg", "round": 1, "seed": 0, "alone": True, "classes": ["a"] * 200}
    about |= {"models": ["mlp:16"], "files": ["everyone.safetensors"], "shape": [1, 8, 8]}
    (tmp_path / "everyone.safetensors").write_bytes(bytes(100))
    (tmp_path / "model.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match=r"200 classes, more than everyone\.safetensors has bytes"):
        read(tmp_path, 0)
    (tmp_path / "model.json").write_text(json.dumps(about | {"classes": ["a"] * (1 << 22)}))
    with pytest.raises(DataError, match="bytes, above 16,777,216"):
        read(tmp_path, 0)


def test_rounds_without_end_are_refused_before_anyone_is_waited_for(tmp_path, hopfed):
    path = tmp_path / "run.h5"
    config = to_plain(serve.Config(columns=20)) | {"rounds": 10**12}
    Run("serve", config, {}, {}, {}, 0, 1).save(path)
    asked = "serve", "--keys", tmp_path / "none", "--out", path
    for words in (("--resume",), ("--resume", "--rounds", 10**12)):
        status, _, error = hopfed(*asked, *words)
        assert (status, error.count("\n")) == (2, 1)
        assert "rounds must be at most 1000000, got 1000000000000" in error
