"""`hopfed join`: the owner of a file as a client of a federation across machines."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed.cli.output import human_bytes, out, table
from hopfed.cli.serve import address, say
from hopfed.errors import ArgumentError


@click.command("join")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Your examples.")
@click.option("--server", help="HOST:PORT of `hopfed serve`.")
@click.option("--ca", type=click.Path(path_type=Path), help="ca.pem of `hopfed certs`.")
@click.option("--key", type=click.Path(path_type=Path), help="Your key, client-*.key.")
@click.option("--epsilon", type=float, help="Release nothing without noise of this epsilon.")
@click.option("--delta", type=float, default=1e-5, show_default=True, help="Its delta.")
@click.option("--operators-only", is_flag=True, help="Answer neither projections nor votes.")
@click.option("--patience", default=600.0, show_default=True, help="Seconds without a server.")
@click.option("--out", "out_file", type=click.Path(path_type=Path), help="Archetypes, .npy.")
@click.option("--dry-run", is_flag=True, help="Send nothing; print what would be sent.")
@click.option("--set", "settings", multiple=True, help="KEY=VALUE of the server, for --dry-run.")
def join_command(data: Path, dry_run: bool, settings: tuple[str, ...], **options: Any) -> None:
    """Take part in a federation with the examples in a file, which stay on this machine.

    .npy, .npz, .csv or .h5, as for `hopfed recover`. Killed and started again, it goes on where it
    was.

    Example: hopfed join --data museum.npy --server 127.0.0.1:9443 --ca ca.pem --key client-0.key
    """
    from hopfed.data.readers import read_examples

    rows = read_examples(data)
    if dry_run:
        _show(rows, options["epsilon"], options["delta"], settings)
        return
    for name in ("server", "ca", "key"):
        if options[name] is None:
            raise ArgumentError(f"--{name}", "given, unless with --dry-run", "none")
    if settings:
        raise ArgumentError("--set", "left out unless with --dry-run: the server decides", settings)
    _join(rows, **options)


def _join(
    rows: Any,
    *,
    server: str,
    ca: Path,
    key: Path,
    epsilon: float | None,
    delta: float,
    operators_only: bool,
    patience: float,
    out_file: Path | None,
) -> None:
    from hopfed.federation.engines.flower import home
    from hopfed.federation.engines.flower.keys import private_key, read
    from hopfed.federation.engines.flower.node import Node
    from hopfed.federation.engines.flower.shelf import Shelf
    from hopfed.federation.engines.flower.site import Site, site_folder
    from hopfed.hopfield.site import TRUSTED, Owner, Releases

    address(server, "--server")
    _check_out(out_file)
    keys = private_key(key)
    folder = site_folder(home(), keys[1])
    releases = Releases(folder / "releases.json")
    owner = Owner(rows, _secret(folder), epsilon, delta, releases, not operators_only)
    node = Node(
        Shelf(folder / "states"),
        lambda method, _: owner.adapt(method),
        trusted=TRUSTED,
        private=True,
    )
    site = Site(server, read(ca, "--ca"), keys, node, folder, patience, say)

    def watch(request: Any, reply: Any) -> None:
        if request.last:
            _finish(request.down, rows.shape[1], out_file)
            site.finished.set()
            return
        where = f"round {request.context.round} exchange {request.context.exchange}"
        if reply.fault:
            say(f"{where}: not answered: {reply.reason}")
            return
        parts = ", ".join(f"{name} {human_bytes(array.nbytes)}" for name, array in reply.up.items())
        say(f"{where}: sending {parts}")

    node.watch = watch
    site.run()


def _finish(down: dict[str, np.ndarray], columns: int, out_file: Path | None) -> None:
    """Keep what the federation found."""
    from hopfed.hopfield.client import unpack_patterns
    from hopfed.runs import replacing

    packed = down.get("patterns", np.zeros((0, -(-columns // 8)), np.uint8))
    patterns = unpack_patterns(packed, columns)
    words = f"the federation is over: {len(patterns)} archetypes"
    if out_file is not None:
        with replacing(out_file) as temporary, open(temporary, "wb") as file:
            np.save(file, patterns)
        words += f"; wrote {out_file}"
    say(words)


def _secret(folder: Path) -> int:
    """Secret of this site, made once."""
    path = folder / "secret"
    if not path.is_file():
        path.touch(mode=0o600)
        path.write_text(str(1 + secrets.randbits(127)))
    return int(path.read_text())


def _check_out(out_file: Path | None) -> None:
    from hopfed.runs import check_writable

    if out_file is None:
        return
    if out_file.suffix != ".npy":
        raise ArgumentError("--out", "a .npy file", out_file)
    check_writable(out_file, "--out")


def _show(rows: Any, epsilon: float | None, delta: float, settings: tuple[str, ...]) -> None:
    """Print the messages of a round, played with these examples alone."""
    from hopfed.config import with_settings
    from hopfed.data.batches import Batches
    from hopfed.experiments import find
    from hopfed.federation.engines.local import LocalEngine
    from hopfed.federation.rounds import play_round
    from hopfed.hopfield.site import inventory

    own = [f"columns={rows.shape[1]}"]
    if epsilon is not None:
        own += [f"epsilon={epsilon}", f"delta={delta}"]
    config = with_settings(find("serve").Config(), [*own, *settings])
    method = config.make(Batches((rows,), config.rounds))
    sent: list[Any] = []

    class Recorded(LocalEngine):
        def step(self, method: Any, calls: Any) -> Any:
            outcomes = super().step(method, calls)
            sent.append(outcomes[0].message)
            return outcomes

    played = play_round(method, None, 0, seed=0, clients=1, engine=Recorded())
    grid = table("exchange", "array", "type", "shape", "size", "what it reveals")
    grid.columns[-1].justify = "left"
    for exchange, message in enumerate(sent):
        for name, kind, shape, size, reveals in inventory(method, message):
            grid.add_row(str(exchange), name, kind, shape, human_bytes(size), reveals)
    out.print(grid, markup=False)
    up, rounds = int(played.traffic.up[0]), config.rounds
    out.print(
        f"\n{human_bytes(up)} in each of {rounds} round(s), {rows.shape[0]:,} examples dealt out "
        f"over them; no example leaves as it is. With other owners' data the server may name other "
        "directions and patterns, so the sizes of later exchanges may differ. Nothing was sent."
    )
