"""What leaves a site, in words and numbers: of one message, and at worst."""

from __future__ import annotations

from dataclasses import dataclass

from hopfed.federation.contract import Method
from hopfed.federation.messages import Message, nbytes
from hopfed.hopfield.graded.method import GradedFederation
from hopfed.hopfield.graded.private import PrivateClasses
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.site.limits import CLASSES, Limits

REVEALS = {
    "counts": "for every pair of columns, in how many examples they agree",
    "values": "strengths of the leading directions of the examples",
    "vectors": "the leading directions of the examples",
    "sketch": "a linear sketch of the second moments of the examples",
    "examples": "how many examples this batch has",
    "columns": "the sum of every column",
    "weight": "a number of the server's own; with --allow-weight how much of this batch is new",
    "groups": "variances of random groups of examples along directions that the server names",
    "sizes": "how many examples these groups have",
    "votes": "for every known pattern, the sum of the examples nearest to it",
    "voters": "how many examples that are",
}
REVEALS_OF_CLASSES = {  # of a federation of graded classes
    "counts": "for every class that the server names, how many examples are of it",
    "signed": "for every class, the sum of every column over its examples",
    "seen": "for every class, how many of its examples have each column",
    "log_likelihood": "how well the classes explain the examples, as one number",
    "products": "for every class, how its columns vary together along a direction",
    "pairs": "for every class, for every pair of columns, in how many of its examples they agree",
    "examples": REVEALS["examples"],
}
FORMS = ("counts", "values", "vectors")  # one or the other of which an operator travels in
NOISY = "for every pair of columns, in how many examples they agree, with noise"


def inventory(method: Method, message: Message) -> list[tuple[str, str, str, int, str]]:
    """Arrays of a message: name, type, shape, bytes, and what they reveal."""
    rows, graded = [], isinstance(method, (GradedFederation, PrivateClasses))
    for name, array in message.items():
        if name in FORMS and array.size == 0:  # the operator is there in another form
            continue
        reveals = (REVEALS_OF_CLASSES if graded else REVEALS).get(name, "")
        if name == "counts" and isinstance(method, PrivateFederation):
            reveals = f"{NOISY}: epsilon {method.epsilon:g}, delta {method.delta:g}"
        if name != "examples" and isinstance(method, PrivateClasses):
            together = f"epsilon {method.epsilon:g}, delta {method.delta:g} for all answers"
            reveals = f"{reveals}, with noise: {together}"
        shape = " x ".join(map(str, array.shape)) or "one number"
        rows.append((name, str(array.dtype), shape, nbytes({name: array}), reveals))
    return rows


@dataclass(frozen=True)
class Worst:
    """Arrays that a server may ask for in a round, at worst.

    Attributes
    ----------
    exchange : their place in the round.
    arrays : their names.
    numbers : numbers in them, at most; together never more than the limit of the client.
    rows : examples behind any of these numbers, at least.
    reveals : in words.
    """

    exchange: int
    arrays: str
    numbers: int
    rows: int
    reveals: str


def worst(shape: tuple[int, int], limits: Limits, private: bool = False) -> list[Worst]:
    """Say what the worst of all servers may ask about each batch of a file, within the limits.

    Parameters
    ----------
    shape : (M, N) of the file.
    limits : of the client; they leave at least one round.
    private : whether the client releases operators with noise only.

    Examples
    --------
    >>> for line in worst((3200, 784), Limits()):
    ...     print(line.arrays, line.numbers, line.rows)
    examples 1 1600
    counts, or values and vectors, or sketch 615440 1600
    columns 784 1600
    weight 1 1600
    """
    M, N = shape
    batch, most = M // limits.most_rounds(M, N), limits.numbers(N)
    if private:
        pairs = min(N * (N - 1) // 2, most)
        found = [
            Worst(0, "examples", 1, batch, REVEALS["examples"]),
            Worst(0, "counts", pairs, batch, NOISY),
        ]
        if limits.classes:  # instead of the counts, from the same budget
            noisy, told = limits.noisy_numbers(N), "sums over any classes, with noise"
            found.append(Worst(0, "or counts, signed, seen, pairs", noisy, batch, told))
        return found
    own, _, new = REVEALS["weight"].partition("; with --allow-weight ")
    weight = new if limits.weight else f"nothing: {own}"
    forms = "for every pair of columns, in how many examples they agree, or a part of that"
    found = [
        Worst(0, "examples", 1, batch, REVEALS["examples"]),
        Worst(0, "counts, or values and vectors, or sketch", min(N * N + N, most), batch, forms),
        Worst(0, "columns", N, batch, REVEALS["columns"]),
        Worst(0, "weight", 1, batch, weight),
    ]
    if limits.sets:
        left = max(0, most - 2 * N - 3)  # the least that an operator takes
        group = min(limits.group, batch)
        vote = min(limits.smallest_vote, batch)
        found += [
            Worst(1, "groups, sizes", left, group, REVEALS["groups"]),
            Worst(2, "votes, voters", left, vote, "sums of the examples nearest to any patterns"),
        ]
    if limits.classes:
        sums = min(limits.classes * CLASSES * (2 * N + 1), most)
        vote = min(limits.smallest_vote, batch)
        told = "sums over any classes; two can be subtracted, which leaves single examples"
        found.append(Worst(0, "counts, signed, seen, products", sums, vote, told))
    return found
