"""`hopfed fl collect`, `forget` and `admit`: sums of clients that may come later, and leave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopfed._lib.other_accounts import locked_itself
from hopfed._lib.outputs import RUN
from hopfed.cli.numbers import COUNT, Whole
from hopfed.cli.outputs import check_outputs, overwrite_option
from hopfed.cli.printing import out
from hopfed.errors import BackendError

if TYPE_CHECKING:
    from hopfed.neural.collected_sums import Collected
    from hopfed.neural.methods.hebbian import Hebbian

CLIENT = Whole(0)
FILE = click.Path(path_type=Path)
TRACES = (
    "not exact: filters and thresholds are of all clients that ever came; collect with "
    "--set bits=public"
)


DATA = click.option(
    "--data", default="", help="The file of the clients' data, where FILE was collected from one."
)


@click.command("collect")
@click.argument("file", type=FILE)
@click.option("--data", default="digits", show_default=True, help="A name or a .npz file.")
@click.option("--partition", default="dirichlet:0.5", show_default=True, help="As in fl run.")
@click.option("--clients", type=COUNT, default=10, show_default=True, help="Number of clients.")
@click.option("--without", type=CLIENT, multiple=True, help="A client that does not take part.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Of fl list hebbian.")
@overwrite_option
def collect_command(
    file: Path, without: tuple[int, ...], settings: tuple[str, ...], **task: Any
) -> None:
    """Collect the operators and class sums of clients in FILE, by one exchange.

    Bits are public and every client chooses its settings, so that one can be forgotten. With --set
    epsilon=E the noise is drawn from the secret in HOPFED_HOME, which is not in FILE: collected
    under another home, the same clients give other sums.

    Example: hopfed fl collect sums.h5 --clients 5 --without 3
    """
    check_outputs(("FILE", file, RUN), inputs=[Path(task["data"])])
    _torch()
    from hopfed._lib.settings import with_settings
    from hopfed.neural.collected_sums import Collected
    from hopfed.neural.methods.hebbian import Hebbian
    from hopfed.neural.training.task import TaskSpec

    # No network is trained: the smallest one is not in the way.
    method = Hebbian(TaskSpec(models=("mlp",), **task), bits="public", choose="own", keep=True)
    method = with_settings(method, settings)
    clients = set(range(task["clients"])) - set(without)
    held = Collected.of(method, clients, _secret(method))
    held.save(file)
    _tell(held)


@click.command("forget")
@click.argument("file", type=FILE)
@click.argument("client", type=CLIENT)
@DATA
def forget_command(file: Path, client: int, data: str) -> None:
    """Subtract CLIENT from the sums in FILE: as if it had never taken part, to the bit.

    Example: hopfed fl forget sums.h5 2
    """
    with locked_itself(file):
        held = _load(file, data).forget(client)
        held.save(file)
    _tell(held)


@click.command("admit")
@click.argument("file", type=FILE)
@click.argument("client", type=CLIENT)
@DATA
def admit_command(file: Path, client: int, data: str) -> None:
    """Add CLIENT to the sums in FILE: as if it had taken part from the beginning, to the bit.

    Where sums have noise, that of CLIENT is drawn from the secret in HOPFED_HOME.

    Example: hopfed fl admit sums.h5 3
    """
    with locked_itself(file):
        held = _load(file, data)
        held = held.admit(client, _secret(held.method))
        held.save(file)
    _tell(held)


COMMANDS = (collect_command, forget_command, admit_command)


def _load(file: Path, data: str) -> Collected:
    _torch()
    from hopfed.neural.collected_sums import Collected

    return Collected.load(file, data)


def _secret(method: Hebbian) -> bytes:
    """Secret of the noise, which stays in the home folder; none where sums have no noise."""
    from hopfed._lib.home_folder import home
    from hopfed.hopfield.site.budget import Ledger

    return Ledger(home() / "privacy").key(b"sums of bits") if method.epsilon else b""


def _torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise BackendError("torch is not installed: pip install 'hopfed[neural]'") from None


def _tell(held: Collected) -> None:
    """Say who is in the sums, and how well all clients of the task do with them."""
    members = ", ".join(map(str, held.members)) or "none"
    out.print(f"clients in the sums: {members}; {held.examples:,} examples", markup=False)
    if held.members:
        accuracy = 100 * float(held.accuracy().mean())
        out.print(f"test accuracy, mean over all clients: {accuracy:.1f}%", markup=False)
    if not held.exact:
        out.print(TRACES, markup=False)
