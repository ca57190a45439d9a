"""SoHip: its equations by hand, its memory on the wire and at test, and what we put beside it."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.experiments import fl  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines import Call  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.faults import Fault  # noqa: E402
from hopfed.federation.messages import malformed, nbytes  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.memory.recall import Form, Remembering, Scorer  # noqa: E402
from hopfed.neural.method import pack, unpack  # noqa: E402
from hopfed.neural.methods.sohip import SoHip  # noqa: E402
from hopfed.neural.models.base import Model  # noqa: E402
from hopfed.neural.training.evaluation import Network  # noqa: E402
from hopfed.neural.training.sequential import train_sequential  # noqa: E402
from hopfed.neural.training.stacked import train_stacked  # noqa: E402

KINDS = ("common", "class", "sample")


def make(name="sohip", options="", **settings):
    small = {
        "clients": 4,
        "rounds": 2,
        "examples": 300,
        "models": ("mlp",),
        "lr": 0.05,
        "way": "sequential",
        "partition": "classes:4",
    }
    return fl.Config(method=name, options=options, **(small | settings)).make(0)


def play(method, rounds=2, **settings):
    state = None
    for t in range(rounds):
        played = play_round(method, state, t, seed=0, clients=4, engine=LocalEngine(), **settings)
        state = played.state
    return played


def inputs(method, count=20):
    return method.loaded.tensors.batch(method.loaded.tensors.rows(np.arange(count)))


def message_to(played, client):
    return played.state.down.get(client, played.state.down.get(EVERYONE, {}))


def tiny(kind="common", patterns=1, ablation="", classes=3, width=2):
    """A memory around a model whose features are its 4 inputs."""
    torch.manual_seed(0)
    model = Model(nn.Flatten(), nn.Linear(4, classes), 4)
    form = Form(kind, patterns, width, beta=2.0, ablation=ablation)
    net = Remembering(model, form, "linear", seed=0)
    net.long_term.copy_(torch.randn(form.shape))
    if kind == "sample":
        net.centre.copy_(torch.randn(width))
    return net, torch.randn(6, 4), torch.tensor([0, 1, 1, 0, 1, 1]), torch.randn(form.shape)


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def softmax(v):
    e = np.exp(v - v.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def unit(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def by_hand(net, x, y, collective):
    """(2)-(15) pattern by pattern, in float64: logits and long-term memory."""
    weights = {n: t.detach().double().numpy() for n, t in net.state_dict().items()}

    def layer(name, v):
        return v @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    form, before, shared = net.form, weights["long_term"], collective.double().numpy()
    z = x.double().numpy()
    encoded = layer("encoder", z)
    if form.kind == "sample":
        encoded = encoded - encoded.mean(axis=0)
    if form.kind == "common":
        share = np.ones((len(z), 1))
    elif form.kind == "class":
        share = np.eye(form.patterns)[y]
    else:
        share = softmax(form.beta * unit(encoded) @ unit(before).T)
    after = before.copy()
    for p in range(form.patterns):
        if share[:, p].sum() == 0:
            continue
        short = (share[:, p] @ encoded) / share[:, p].sum()
        if form.ablation != "a":
            short = sigmoid(layer("importance", short)) * short
        after[p] = short
        if form.ablation != "b":
            u = np.concatenate([short, before[p]])
            take, forget, output = (sigmoid(layer(g, u)) for g in ("take", "forget", "output"))
            after[p] = output * (take * short + forget * before[p])
    complete = after
    if form.ablation != "c":
        v = np.concatenate([after, shared], axis=1)
        complete = sigmoid(layer("fusion", v)) * shared + after
    logits = layer("model.head", z)
    weight = {
        "common": np.ones((len(z), 1)),
        "class": softmax(logits),
        "sample": softmax(form.beta * unit(encoded) @ unit(complete).T),
    }[form.kind]
    return layer("model.head", z + layer("decoder", weight @ complete)), after


@pytest.mark.parametrize("ablation", ["", "a", "b", "c"])
@pytest.mark.parametrize(("kind", "patterns"), [("common", 1), ("class", 3), ("sample", 2)])
def test_two_batches_by_hand(kind, patterns, ablation):
    net, x, y, collective = tiny(kind, patterns, ablation)
    for _ in range(2):
        expected = by_hand(net, x, y.numpy(), collective)
        _, logits, states = net(x, collective, y)
        np.testing.assert_allclose(logits.detach(), expected[0], atol=1e-5)
        np.testing.assert_allclose(states["long_term"].detach(), expected[1], atol=1e-6)
        for name, state in states.items():
            getattr(net, name).copy_(state.detach())


@pytest.mark.parametrize(("kind", "patterns"), [("common", 1), ("class", 3), ("sample", 2)])
def test_rows_that_pad_a_batch_leave_no_memory(kind, patterns):
    net, x, y, collective = tiny(kind, patterns)
    mask = torch.tensor([1.0, 1, 1, 1, 0, 0])
    _, logits, states = net(x, collective, y, mask)
    _, short_logits, short = net(x[:4], collective, y[:4])
    torch.testing.assert_close(states, short)
    torch.testing.assert_close(logits[:4], short_logits)


def test_at_test_what_examples_have_in_common_is_the_average_of_late():
    net, x, y, collective = tiny("sample", 2)
    encoded, before = net.encoder(x), net.centre.clone()
    _, _, states = net(x, collective, y)
    torch.testing.assert_close(states["centre"], 0.8 * before + 0.2 * encoded.mean(0))
    _, logits, same = net(x, collective)
    torch.testing.assert_close(same["centre"], before, rtol=0, atol=0)
    torch.testing.assert_close(same["long_term"], net.long_term, rtol=0, atol=0)
    complete = net.fused(net.long_term, collective)
    recalled = net.decoder(net.address(encoded - before, complete) @ complete)
    torch.testing.assert_close(logits, net.model.head(x + recalled))


def test_a_batch_leaves_a_memory_without_gradient():
    method = make()
    job = method._job(Call({}, {}, Context(0, 0, 0, 0)))
    before = job.params["long_term"].clone()
    train_sequential([job], method.loaded.tensors, method.training, method.objective)
    assert not job.params["long_term"].requires_grad
    assert (job.params["long_term"] != before).all()


def test_ablations_are_named_by_small_letters_or_by_the_capitals_of_the_paper():
    assert make(options="ablation=D") == make(options="ablation=d")
    assert make("fedssa", "ablation=M1-A") == make("fedssa", "ablation=m1-a")


@pytest.mark.parametrize("way", ["sequential", "stacked"])
def test_without_memory_it_is_standalone_to_the_bit(way):
    alone, ours = play(make("standalone", way=way)), play(make(options="ablation=d", way=way))
    for c in range(4):
        mine = unpack(ours.state.clients[c])
        for name, array in unpack(alone.state.clients[c]).items():
            torch.testing.assert_close(mine[f"model.{name}"], array, rtol=0, atol=0)
    assert (ours.traffic.parameters_up == 0).all()


@pytest.mark.parametrize("options", [*(f"memory={k}" for k in KINDS), "ablation=b", "head=mlp"])
def test_stacked_and_sequential_agree(options):
    method = make(options=options, partition="dirichlet:0.5")
    down = {"memory": np.full(method.form.shape, 0.5, np.float32)}
    jobs = [[method._job(Call({}, down, Context(0, 1, 0, c))) for c in range(4)] for _ in range(2)]
    assert len({len(job.rows) for job in jobs[0]}) > 1
    settings = replace(method.training, epochs=1, batch=16)
    train_sequential(jobs[0], method.loaded.tensors, settings, method.objective)
    train_stacked(jobs[1], method.loaded.tensors, settings, method.objective)
    for a, b in zip(*jobs, strict=True):
        assert abs(a.loss - b.loss) < 1e-5
        for n in a.params:
            torch.testing.assert_close(a.params[n], b.params[n], rtol=1e-4, atol=1e-5)


def doubled(params):
    return {n: t.double() for n, t in params.items()}


def test_with_a_linear_header_the_memory_is_an_offset_of_the_logits():
    method = make()
    played = play(method)
    state, down = played.state.clients[0], message_to(played, 0)
    params, (x, _) = doubled(method.start_params(state, down, 0)), inputs(method)
    own = doubled(method.personal(state, down, 0))
    collective = torch.tensor(down["memory"]).double()
    with torch.inference_mode():
        scores = Scorer(method.net(0), params, (collective,))(x.double())
        apart = scores - Network(method.loaded.model(0), own)(x.double())
        # W_H R(M), with M of (10)-(12) written out.
        v = torch.cat([params["long_term"], collective], dim=1)
        absorbed = torch.sigmoid(v @ params["fusion.weight"].T + params["fusion.bias"])
        memory = absorbed * collective + params["long_term"]
        decoded = memory @ params["decoder.weight"].T + params["decoder.bias"]
        offset = decoded @ own["head.weight"].T
    assert offset.abs().max() > 0.01
    torch.testing.assert_close(apart, offset.expand_as(apart), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", ["memory=class", "memory=sample", "head=mlp"])
def test_otherwise_it_differs_from_example_to_example(options):
    method, started = make(options=options), None
    played = play(method)
    state, down = played.state.clients[0], message_to(played, 0)
    x, _ = inputs(method)
    if "head" in options:
        without = pack(unpack(state) | {"decoder.weight": torch.zeros(200, 64)})
        without["model/decoder.bias"] = np.zeros(200, np.float32)
        started = method.classifier(without, down, 0)
    with torch.inference_mode():
        bare = started or Network(method.loaded.model(0), method.personal(state, down, 0))
        apart = method.classifier(state, down, 0)(x) - bare(x)
    assert apart.std(dim=0).max() > 1e-3


def test_at_test_the_last_memories_are_read_and_not_changed():
    method = make()
    played = play(method)
    state, down = played.state.clients[0], message_to(played, 0)
    x, _ = inputs(method)
    kept = {n: a.copy() for n, a in state.items()}
    with torch.inference_mode():
        first, second = (method.classifier(state, down, 0)(x) for _ in range(2))
        other = method.classifier(state, {"memory": down["memory"] + 1}, 0)(x)
        long_term = state["model/long_term"] + 1
        forgot = method.classifier({**state, "model/long_term": long_term}, down, 0)(x)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert (first != other).any()
    assert (first != forgot).any()
    for n, a in kept.items():
        np.testing.assert_array_equal(a, state[n])


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ("", 64),
        ("m=32", 32),
        ("m=64,memory=class", 60),
        ("memory=sample", 64),
        ("aggregation=hopfield", 64),
        ("ablation=a", 64),
        ("ablation=b", 64),
        ("ablation=c", 0),
    ],
)
def test_only_the_memory_crosses_the_wire(options, numbers):
    sent = {}

    class Spy(LocalEngine):
        def step(self, method, calls):
            outcomes = super().step(method, calls)
            for call, outcome in zip(calls, outcomes, strict=True):
                sent[call.context.round, call.context.client] = call.down, outcome.message
            return outcomes

    method = make(options=options)
    state = None
    for t in range(2):
        played = play_round(method, state, t, seed=0, clients=4, engine=Spy())
        state = played.state
    assert len(sent) == 8
    for (t, c), (down, up) in sent.items():
        assert set(up) == ({"memory"} if numbers else set())
        assert nbytes(up) == 4 * numbers
        assert nbytes(down) == 4 * numbers * (t > 0)
        if numbers:
            np.testing.assert_array_equal(up["memory"].shape, method.form.shape)
            more = {**up, "features": np.zeros(3)}
            spec = method.expects(down, Context(0, t, 0, c))
            assert malformed(up, spec) is None
            assert "features is unknown" in malformed(more, spec)
    assert played.traffic.up.tolist() == played.traffic.down.tolist() == [4 * numbers] * 4


def test_the_mean_is_weighed_by_size():
    method = make(partition="dirichlet:0.5")
    sizes = method.loaded.split.sizes[:, 0]
    sent = {c: {"memory": np.full((1, 64), float(c), np.float32)} for c in (0, 2, 3)}
    state, down = method.answer({}, sent)
    expected = np.average([0, 2, 3], weights=sizes[[0, 2, 3]])
    np.testing.assert_allclose(down[EVERYONE]["memory"], expected, rtol=1e-6)
    np.testing.assert_array_equal(state["memory"], down[EVERYONE]["memory"])


def test_a_class_is_averaged_over_those_who_hold_it_and_kept_where_nobody_does():
    method = make(options="memory=class,m=20", partition="iid")
    one, two = np.zeros((2, 10, 2), np.float32)
    one[3], one[4], two[4] = 1, 2, 6
    last = np.full((10, 2), 9, np.float32)
    sizes = method.loaded.split.sizes[:2, 0]
    state, _ = method.answer({"memory": last}, {0: {"memory": one}, 1: {"memory": two}})
    assert (state["memory"][3] == 1).all()
    expected = np.average([2, 6], weights=sizes)
    np.testing.assert_allclose(state["memory"][4], expected, rtol=1e-6)
    assert (np.delete(state["memory"], [3, 4], axis=0) == 9).all()


def test_classes_that_a_client_has_not_seen_leave_no_memory():
    method = make(options="memory=class")
    played = play(method, rounds=1)
    for c in range(4):
        held = (played.state.clients[c]["model/long_term"] != 0).any(axis=1)
        np.testing.assert_array_equal(held, method.loaded.split.counts("train")[c] > 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{"batch": 1, "lr": 0.001}, {"models": ("mlp", "lenet")}])
def test_odd_batches_and_unequal_feature_dimensions(kind, settings):
    method = make(options=f"memory={kind}", examples=120, **settings)
    played = play(method, participation=Participation(0.5))
    assert (played.faults.codes == Fault.ABSENT).sum() == 2
    for c in range(4):
        state = played.state.clients.get(c) or {}
        with torch.inference_mode():
            scores = method.classifier(state, message_to(played, c), c)(inputs(method)[0])
        assert scores.isfinite().all()


@pytest.mark.parametrize("aggregation", ["mean", "hopfield"])
def test_a_client_that_sends_nan_is_left_out(aggregation):
    class Sick(SoHip):
        def finish(self, state, params, client):
            if client == 1:
                params = {n: t * float("nan") for n, t in params.items()}
            return super().finish(state, params, client)

    healthy = make(options=f"aggregation={aggregation}")
    sick = Sick(healthy.task, healthy.training, aggregation=aggregation)
    played = play(sick)
    assert played.faults.codes.tolist() == [0, Fault.NOT_FINITE, 0, 0]
    assert all(np.isfinite(m["memory"]).all() for m in dict(played.state.down).values())


def test_a_learned_bias_is_the_control():
    alone, control = make("standalone"), make("standalone-bias")
    x, _ = inputs(alone)
    played = play(control)
    with torch.inference_mode():
        start = [m.classifier({}, {}, 0)(x) for m in (alone, control)]
        torch.testing.assert_close(*start, rtol=0, atol=0)
        state = played.state.clients[0]
        own = control.personal(state, {}, 0)
        shift = torch.as_tensor(state["model/bias"]) @ own["head.weight"].T
        apart = control.classifier(state, {}, 0)(x) - Network(control.loaded.model(0), own)(x)
    assert shift.abs().max() > 1e-3
    torch.testing.assert_close(apart, shift.expand_as(apart), rtol=0, atol=1e-5)
    assert (played.traffic.up == 0).all()
    assert set(own) == set(alone.initial(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("m=0", "m must be at least 1"),
        ("ablation=e", "ablation must be one of a, b, c, d"),
        ("head=deep", "head must be one of linear, mlp"),
        ("memory=none", "memory must be one of common, class, sample"),
        ("memory=class,m=9", "m must be at least 10, the number of patterns"),
        ("memory=sample,patterns=65", "m must be at least 65"),
        ("patterns=0", "patterns must be at least 1"),
        ("beta=0", "beta must be above 0"),
        ("aggregation=median", "aggregation must be one of mean, hopfield"),
        ("aggregation=hopfield,memory=class", "aggregation must be mean for a memory by class"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ArgumentError, match=message):
        make(options=options)
