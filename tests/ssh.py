"""A machine that one can log in to, for tests: an SSH server on loopback, of asyncssh's own."""

import asyncio
import os
import signal
import threading
from contextlib import suppress

import asyncssh

PATIENCE = 30.0


class Machine:
    """Runs what whoever has its key says, as this user; all of it ends with the context.

    Parameters
    ----------
    folder : where the key is written.
    """

    def __init__(self, folder):
        self.key = folder / "id"
        self._pair = asyncssh.generate_private_key("ssh-ed25519")
        self._pair.write_private_key(self.key)
        self._ready = threading.Event()
        self._children = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._listen()), daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)

    @property
    def options(self):
        """How to connect, as Dask takes it."""
        return {"port": self.port, "known_hosts": None, "client_keys": [str(self.key)]}

    async def _listen(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        public = self._pair.export_public_key().decode()
        server = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            authorized_client_keys=asyncssh.import_authorized_keys(public),
            process_factory=self._serve,
            encoding=None,
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        for child in self._children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
        server.close()
        await server.wait_closed()

    async def _serve(self, process):
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_shell(
            process.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        self._children.append(child)
        await asyncio.gather(
            _passed(child.stdout, process.stdout), _passed(child.stderr, process.stderr)
        )
        with suppress(OSError, asyncssh.Error):
            process.exit(await child.wait())


async def _passed(source, sink):
    """Pass on what a program prints, for as long as somebody reads it."""
    while data := await source.read(1 << 16):
        with suppress(OSError, asyncssh.Error):
            sink.write(data)
