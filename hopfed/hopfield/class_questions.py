"""Questions about classes as messages: their form, and the form and the bounds of the answers.

A question is about a client's rows of the round; with `every`, about all its rows, or about a table
that it makes of them: a replica, drawn from the classes `of`, or every `step`-th row. Questions of
`hopfed.archetypes.relate` are about an outcome; the server names its words, so that none leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import hopfed.archetypes.class_sums as asks
import hopfed.archetypes.relate as relating
from hopfed._lib.arrays import to_host
from hopfed._lib.cache import Recent
from hopfed.archetypes.channel_and_replicas import redraw_owner
from hopfed.archetypes.class_tests import thin_owner
from hopfed.archetypes.relate import Column, Member
from hopfed.archetypes.row_weights import repeat_rows
from hopfed.archetypes.session import Owner
from hopfed.errors import DataError, safe_line
from hopfed.federation.messages import MALFORMED, Field, Message, Spec, digest, require_form
from hopfed.hopfield.announcement import Announcement, read_names
from hopfed.hopfield.example_sources import Blocks, SummedAnswer
from hopfed.hopfield.operator_messages import EXAMPLES
from hopfed.kernels import Rows, pack
from hopfed.spectral.rows import merge_where_it_pays


def count_rows(owner: Owner, _: Message) -> Message:
    """Answer the question about classes how many rows a client's table has."""
    return {"rows": np.array(owner.rows.size)}


Question = Callable[[Any, Message], Message]
# Arrays that each question needs beside classes; a message names a question by its place here.
NEEDED: dict[Question, tuple[str, ...]] = {
    asks.sums_and_pairs: (),
    **dict.fromkeys((asks.residual_products, asks.upper_sums), ("directions",)),
    asks.well_explained_sums: ("above",),
    **dict.fromkeys((asks.effective_row_sums, asks.class_sums), ()),
    asks.offer_points: ("points", "more"),
    asks.mixture_sums: ("points", "more", "parts"),
    **dict.fromkeys((asks.column_sums, asks.repeated_rows, count_rows, asks.residual_squares), ()),
    asks.residual_product: ("vector",),
    **dict.fromkeys((relating.first_sums, relating.outcome_sums), ("outcome",)),
    relating.outcome_slopes: ("outcome", "outcome_means"),
    relating.lost_information: ("outcome", "along"),
    relating.outcome_meat: ("outcome", "outcome_means", "solved", "survey"),
}
QUESTIONS = (*NEEDED,)
RELATED = QUESTIONS[QUESTIONS.index(relating.first_sums) :]
LEARNT = (asks.sums_and_pairs, asks.class_sums)  # questions that set the classes of later questions
BARE = (asks.column_sums, asks.repeated_rows, count_rows)  # questions without classes
REPLICA = ("of", "of_shares", "number", "seed")  # entries that say which rows are drawn,
TABLE = (*REPLICA, "step")  # and entries that name a table

LEAST_LIKELY = 15.0  # minus the log of the least probability of an entry: means are inside of +-1
MOST = 200  # most classes in a question
NUMBERS, LINES = 2**23, 5_000  # most numbers of a question about an outcome, and most lines
POINTS, LETTERS = 2**21, 2**16  # most entries of offered points, most bytes of an outcome's words
SLACK = 1e-3  # rows by which rounding to single precision may raise a sum
HEAVIEST = 1e18  # largest sum of the weights of a survey
LONGEST = 1e4  # largest entry of a direction: an honest server's has length 1 after scaling
FORMS = Recent(1000, lambda _: 1)  # forms of answers
OWNERS = Recent(1 << 27, lambda owner: 4096 + 16 * owner.rows.n + _bytes_held(owner))


def _bytes_held(x: Any) -> int:
    """Bytes of the arrays in an object, its entries and its attributes."""
    inside = x if isinstance(x, list | tuple) else getattr(x, "__dict__", {}).values()
    return sum(map(_bytes_held, inside)) if len(inside) else int(getattr(x, "nbytes", 0))


def asked(down: Message) -> Question:
    """Return the function of the question about classes that a server's message names."""
    return QUESTIONS[int(down.get("question", 0))]


def first_question(n_sites: int) -> Message:
    """Return the first question of a server without memory: about a single class."""
    return {"means": np.zeros((1, n_sites), np.float32), "shares": np.ones(1, np.float32)}


def check_question(down: Message, N: int, exact: bool) -> None:
    """Fail unless a message from the server is a question about classes of N columns."""
    known = np.asarray(down.get("question", 0)).tolist() in range(len(QUESTIONS))
    question = asked(down) if known and exact else asks.sums_and_pairs
    number, rate = Field((), "iu", least=0), partial(Field, kinds="f", least=-1.0, most=1.0)
    side = partial(Field, kinds="f", least=-LONGEST, most=LONGEST)
    share = partial(Field, kinds="f", least=0.0, most=1.0 + 1e-6)
    classes = {"means": rate(("classes", N)), "shares": share(("classes",))}
    more = {
        **dict.fromkeys(("every", "number", "seed", "step"), number),
        "question": replace(number, most=len(QUESTIONS) - 1),
        "above": side(()),
        "directions": side(("classes", N)),
        "vector": side((N,)),
        "of": rate(("of", N)),
        "of_shares": share(("of",)),
        "points": rate(("points", "classes", N)),
        "more": Field(("points", "classes"), "f"),
        "parts": Field((None,), "f"),
    }
    if question in RELATED:
        K, C = len(down.get("means", ())), len(relating.rated_words(read_outcome(down)[1:]))
        lines = K * C + len(np.atleast_1d(down.get("along", ())))
        if lines > LINES or lines * K * (N + 1) > NUMBERS:
            raise DataError(f"{MALFORMED}: more numbers than a question has")
        more |= {"outcome": Field((None,), "u"), "outcome_means": Field((K, C), "f")}
        more |= {"along": Field((None, K, N + 1), "f"), "survey": Field((), "f")}
        more |= {"solved": Field((K * C, K, N + 1), "f")}
    bare = question in BARE
    spec = {n: f for n, f in classes.items() if n in down or not bare}
    drawn = REPLICA if "step" not in down and any(n in down for n in REPLICA) else ()
    spec |= {n: more[n] for n in sorted({*down, *NEEDED[question], *drawn} & {*more}) if exact}
    require_form(down, spec)
    K = max((len(down[n]) for n in ("means", "of", "points") if n in down), default=0)
    if K > MOST or not (bare or len(down["means"])) or np.size(down.get("points", 0)) > POINTS:
        raise DataError(f"{MALFORMED}: {K} classes or points, and not 1 to {MOST}")
    if not bare and not abs(float(down["shares"].sum(dtype=float)) - 1) < 1e-3:
        raise DataError(f"{MALFORMED}: shares that do not add up to one")


def answer_spec(down: Message, N: int) -> Spec:
    """Form of a client's answer to a question about classes, within bounds that all rows obey.

    Its arrays are those of the answer for a single row.
    """
    about = N, bytes(down.get("outcome", b"")), *((n, np.shape(a)) for n, a in down.items())

    def shapes() -> dict[str, tuple[int, ...]]:
        return {n: a.shape for n, a in answer(pack(np.ones((1, N), np.int8)), down).items()}

    found = FORMS.get((asked(down), about), shapes)
    if "examples" not in found:  # about an outcome
        return {name: Field(shape, "f") for name, shape in found.items()}
    # Two entries of a row differ from their means by 2 at most.
    along = np.atleast_2d(down.get("directions", down.get("vector", np.zeros(1))))
    steep = 4.1 * float(np.abs(along).sum(axis=1).max(initial=0))
    cubes = (LEAST_LIKELY * N) ** 3
    times = {"products": steep, "product": steep, "squares": 4.1, "once": cubes}
    times |= {"twice": cubes**2, "log_likelihood": LEAST_LIKELY * (N + 1)}
    least, most = {"counts": 0.0, "seen": -SLACK, "pairs": -SLACK}, {"log_likelihood": 1.0}
    spec = {
        n: Field(shape, "fiu", least.get(n), "examples", most.get(n), times.get(n, 1.0))
        for n, shape in found.items()
    }
    free = {n: Field(found[n]) for n in ("value", "slopes", "bends", "equal") if n in found}
    weight = {"weight": Field((), "f", least=0.0, most=HEAVIEST)} if "weight" in found else {}
    return {**spec, **free, **weight, "examples": EXAMPLES}


def answer(rows: Rows, down: Message, client: int = 0, outcome: Column | None = None) -> Message:
    """Answer a question about classes exactly: sums over a client's rows and its outcome."""

    def digest_of(*names: str) -> bytes:
        return digest({n: down[n] for n in names if n in down})

    planes = {n: np.asarray(x) for n, x in vars(rows).items() if x is not None}
    name, question = (client, digest(planes)), asked(down)
    if question in RELATED:
        beside = outcome and (outcome.name, outcome.words, digest({"": outcome.values}))
        about = name, beside, digest_of("means", "shares", "outcome")

        def of_members(part: Rows, first: int) -> SummedAnswer:
            own = outcome and replace(outcome, values=outcome.values[first:][: len(part)])
            key = about, first, len(part)
            member = OWNERS.get(key, lambda: make_member(down, part, own))
            sums = SummedAnswer({n: np.asarray(a) for n, a in question(member, down).items()})
            OWNERS.put(key, member)
            return sums

        return Blocks(**vars(rows), each=_bytes_per_row(down)).total(of_members, placed=True)
    # Weights of a survey are scaled to its effective number of rows.
    whole = OWNERS.get(name, lambda: Owner(merge_where_it_pays(repeat_rows([rows])[0]), client))
    table: Any = name
    owner = whole
    if any(n in down for n in TABLE):
        table = name, digest_of(*TABLE)
        owner = OWNERS.get(table, lambda: _make_table(whole, down))
    classes = digest_of("means", "shares")

    def of_block(part: Rows, first: int) -> SummedAnswer:
        key, mine = table, owner
        if len(part) < len(owner.rows):
            key = table, first, len(part)
            mine = OWNERS.get(key, lambda: Owner(part, client))
        if question not in (*LEARNT, *BARE) and getattr(mine, "known", None) != classes:
            mine.learn(down["means"], down["shares"])
        if question == asks.mixture_sums:
            offer = classes + digest_of("points", "more")
            if getattr(mine, "offered", None) != offer:
                asks.offer_points(mine, down)
                mine.offered = offer
        sums = SummedAnswer({n: np.asarray(to_host(a)) for n, a in question(mine, down).items()})
        if question not in BARE:
            mine.known = classes
        OWNERS.put(key, mine)  # at its present size
        return sums

    each = 0 if question in BARE else _bytes_per_row(down)
    found = Blocks(**vars(owner.rows), each=each).total(of_block, placed=True)
    weight = {} if "question" in down else {"weight": np.array(rows.weights.sum())}
    return {**found, **weight, "examples": np.asarray(whole.rows.size)}


def _bytes_per_row(down: Message) -> int:
    """Bytes of memory, about, that a question needs for each row."""
    K, S = (len(down.get(name, ())) for name in ("means", "points"))
    C = np.shape(down.get("outcome_means", np.zeros((0, 0))))[1]
    return 48 * K + 8 * S * (K + 6) + 16 * C * K * K


def read_outcome(down: Message) -> tuple[str, ...]:
    """Read from a question about classes the name of an outcome, and words whose rates it wants."""
    try:
        if (given := down["outcome"]).size > LETTERS:
            raise DataError(f"{MALFORMED}: an outcome of too many words")
        words = given.astype(np.uint8).tobytes().decode().split("\0")
    except (KeyError, UnicodeDecodeError):
        raise DataError(f"{MALFORMED}: an outcome without a name") from None
    return read_names(words, 1 + NUMBERS // max(np.size(down.get("means", 0)), 1))


def make_member(down: Message, rows: Rows, outcome: Column | None) -> Member:
    """Return a client's rows with classes, its outcome coded as a question about classes asks."""
    name, *words = read_outcome(down)
    if len(words) > relating.LEVELS:
        raise DataError(f"the server asks for more than {relating.LEVELS} words of an outcome")
    values = np.full((len(rows), len(words) or 1), np.nan)
    if outcome is not None:
        kind = bool(words) == bool(outcome.words) and set(outcome.words) <= set(words)
        if outcome.name != name or not kind:  # the error quotes no value
            own = ", and =WORD,WORD,... with all its words" if outcome.words else ""
            wants, has = safe_line(name, 40), safe_line(outcome.name, 40)
            front = f"the server asks for the outcome {wants!r}, and --outcome {has} is here"
            raise DataError(f"{front}: serve --relate with this name{own}")
        there = np.isfinite(outcome.values[:, 0])
        values[there] = 0.0
        values[:, [words.index(w) for w in outcome.words] or [0]] = outcome.values
        values[~there] = np.nan
    found = Announcement.of_classes(down["means"], down["shares"]).archetypes()
    return Member.of(found, rows, rows.weights, [Column(name, values, tuple(words))])


def _make_table(owner: Owner, down: Message) -> Owner:
    """Make the table that a question names from an owner's rows: every `step`-th, or a replica."""
    if "step" in down:
        return thin_owner(owner, max(int(down["step"]), 1))
    draw = int(down["seed"]), int(down["number"])
    return redraw_owner(owner, owner.index, down["of"], down["of_shares"], *draw)


def sums_complaint(message: Message) -> str | None:
    """Say why no rows can give this answer to a question about classes; None if some can."""
    if "counts" not in message:
        return None
    counts, seen = (message[name].astype(np.float64) for name in ("counts", "seen"))
    slack = SLACK + 1e-5 * float(message["examples"])
    if counts.sum() > float(message["examples"]) + slack:
        return f"counts of {counts.sum():g} rows, of {int(message['examples'])}"
    if (seen > counts[:, None] + slack).any():
        return "more entries of a class than it has rows"
    if (np.abs(message["signed"]) > seen + slack).any():
        return "sums of entries beyond their number"
    return None
