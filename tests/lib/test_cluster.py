"""Workers of Dask on this machine are reached by nobody else."""

import pytest


def test_nobody_else_reaches_workers_on_this_machine():
    """Whoever reached their scheduler had it run any code, and its pages were for every machine."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    import psutil

    from hopfed._lib.dask_cluster import cluster

    with cluster("local", 1) as client:
        assert client.submit(abs, -2).result(timeout=60) == 2
        me = psutil.Process()
        listening = [
            c.laddr
            for process in (me, *me.children(recursive=True))
            for c in process.net_connections()
            if c.status == psutil.CONN_LISTEN
        ]
        assert {address.ip for address in listening} == {"127.0.0.1"}
        scheduler = client.scheduler.address
        assert scheduler.startswith("tls://")
        stranger = distributed.Security.temporary()
        for address, keys in ((scheduler.replace("tls", "tcp"), None), (scheduler, stranger)):
            with pytest.raises(OSError):  # noqa: PT011  (of several kinds, in many words)
                distributed.Client(address, security=keys, timeout=1)
