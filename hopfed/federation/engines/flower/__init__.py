"""The engine `flower`: clients behind Flower's message API, on this machine or on others.

wire : calls and answers as Flower records; arrays travel as they lie in memory, never as a pickle.
node : what a client does with a request, and the states that stay with it.
engine : the steps of an exchange as messages through a Flower grid.
simulation : nodes in this process, on Flower's in-memory link.
link : Flower's link state, and a run in it.
server : the server's side across machines: Flower's Fleet API, and nothing else, over TLS.
grid : the messages of an exchange: who is asked, who is waited for, and how long.
connections : the connections to it: how many, of whom, and for how long.
requests : the requests in them: whose they are, how much comes in, and how fast.
client : the client's side: one process that asks the server for work.
fleet_client : Flower's client of a server, with bounds on what it takes as an answer.
uploads : bodies of requests that are not whole yet.
limited_log : what a client says of a server, each kind of line once.
objects : what came as Flower objects, checked before it is put together.
keys : a certificate authority, the server's certificate and the clients' keys.
kept_states : states that stay with the clients of a node.
private : folders and files that their owner alone may read.

Importing this package turns Flower's telemetry off and gives Flower a folder of ours.
"""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec

from hopfed._lib.home_folder import home
from hopfed.errors import BackendError


def _prepare() -> None:
    """Set what Flower reads from the environment when it is imported."""
    if find_spec("flwr") is None:
        raise BackendError("flwr is not installed: pip install 'hopfed[flower]'")
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
    os.environ.setdefault("FLWR_HOME", str(home() / "flower"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what its dependencies deprecate in one another
        import flwr.clientapp
        import flwr.server.superlink.linkstate
        import flwr.superlink.grid  # noqa: F401


_prepare()
