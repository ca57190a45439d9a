"""`hopfed certs`: certificates and keys for a federation across machines."""

from __future__ import annotations

from pathlib import Path

import click

from hopfed.cli.options import COUNT, PATH, option, overwrite_option, set_aside
from hopfed.cli.printing import out


@click.command("certs")
@click.argument("folder", type=PATH)
@option("--clients", "Number of clients.", COUNT, required=True)
@option(
    "--host hosts",
    "Name or address of the server, as clients call it; may be given several times.",
    default=("127.0.0.1", "localhost"),
    multiple=True,
)
@option("--days", "Days they are good for.", COUNT, 365)
@overwrite_option
def certs_command(folder: Path, clients: int, hosts: tuple[str, ...], days: int) -> None:
    """Make the certificates and keys of a federation in FOLDER.

    These are an authority, the server's certificate, and a certificate with its key for every
    client. The server keeps server.pem, server.key and ca.pem; client 0 gets ca.pem and
    client-0.key, by a way that you trust, and so on.

    Example: hopfed certs keys --clients 3 --host federation.example.org
    """
    from hopfed.federation.machines.keys import make_keys

    patterns = ("ca.pem", "server.pem", "server.key", "client-*.key")
    with set_aside(*(path for pattern in patterns for path in folder.glob(pattern))):
        files = make_keys(folder, clients, hosts, days)
    out.print(f"wrote {len(files)} files to {folder}: good for {days} days", markup=False)
    words = f"give client c {folder}/ca.pem and {folder}/client-c.key; keep the rest here"
    out.print(words, markup=False)
