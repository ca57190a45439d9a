"""A certificate authority, the server's certificate, and the clients' keys.

The server shows a certificate that the authority signed; a client signs its requests with a key
whose public half the server holds. Whoever has neither is refused.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.supercore.primitives import asymmetric

from hopfed._lib.outputs import check_folder
from hopfed.errors import ArgumentError, DataError, shown
from hopfed.federation.engines.flower.private import check_private, write_new

CA, SERVER = "ca", "server"
DAYS, MOST_DAYS = 365, 36_500
MOST = 10_000  # clients
LARGEST = 1 << 20  # bytes of a key or a certificate

_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")


def make_keys(folder: Path, clients: int, hosts: Sequence[str], days: int = DAYS) -> list[Path]:
    """Write an authority, a server's certificate and the keys of `clients` clients.

    Parameters
    ----------
    folder : where none of the files may be there already, and nobody else may write; it is made
        when it is not there.
    hosts : names or addresses under which clients reach the server.
    days : that the certificates are good for.

    Returns
    -------
    ``ca.pem`` (everyone), ``server.pem`` and ``server.key`` (the server), ``client-0.key`` ...
    (one client each) and ``client-0.pub`` ... (the server). Only their owner can read keys. The
    authority's own key is thrown away: nobody can sign another certificate with it.

    Raises
    ------
    ArgumentError : something cannot be as asked; nothing was written then.
    """
    if not 1 <= clients <= MOST:
        raise ArgumentError("clients", f"1 to {MOST}" if clients > MOST else "at least 1", clients)
    if not hosts:
        raise ArgumentError("host", "given: the name under which clients reach the server", "none")
    if not 1 <= days <= MOST_DAYS:
        raise ArgumentError("days", f"1 to {MOST_DAYS}", days)
    names = [_name(host) for host in dict.fromkeys(hosts)]
    folder = check_folder(folder, "folder", own=True)
    for path in _files(folder, clients):
        if os.path.lexists(path):
            raise ArgumentError(
                "folder", "one without certificates and keys (--overwrite replaces them)", path
            )
    written: list[Path] = []
    try:
        folder.mkdir(0o755, parents=True, exist_ok=True)
        check_folder(folder, "folder", own=True)  # somebody may just have made it
        for path, data in zip(_files(folder, clients), _made(clients, names, days), strict=True):
            write_new(path, data, 0o600 if path.suffix == ".key" else 0o644)
            written.append(path)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise ArgumentError("folder", f"writable ({error.strerror})", folder) from None
    return written


def _files(folder: Path, clients: int) -> list[Path]:
    names = [f"{CA}.pem", f"{SERVER}.pem", f"{SERVER}.key"]
    names += [f"client-{c}.{kind}" for c in range(clients) for kind in ("key", "pub")]
    return [folder / name for name in names]


def _made(clients: int, names: Sequence[x509.GeneralName], days: int) -> Iterator[bytes]:
    """What is in the files, in the order of `_files`."""
    curve = ec.SECP256R1()
    authority, key = ec.generate_private_key(curve), ec.generate_private_key(curve)
    issuer = "hopfed authority"
    yield _pem(_certificate(issuer, authority, issuer, authority, days))
    other = x509.SubjectAlternativeName(names)
    yield _pem(_certificate("hopfed server", key, issuer, authority, days, other))
    yield asymmetric.private_key_to_bytes(key)
    for _ in range(clients):
        private, public = asymmetric.generate_key_pairs()
        yield asymmetric.private_key_to_bytes(private)
        yield asymmetric.public_key_to_bytes(public)


def public_keys(folder: Path, clients: int) -> list[bytes]:
    """Public keys of the clients 0 .. clients - 1, in the form that Flower compares."""
    keys = [_public(folder / f"client-{c}.pub") for c in range(clients)]
    if len(set(keys)) < len(keys):
        raise DataError(f"{folder}: two clients have the same key")
    return keys


def private_key(path: Path) -> tuple[Any, Any]:
    """Private and public key of a client.

    Raises
    ------
    DataError : not a key, or one that others can read.
    """
    data = read(path, "--key")
    try:
        private = asymmetric.bytes_to_private_key(data)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError("of another kind")
    except (ValueError, TypeError):
        raise DataError(f"{path}: not a client's key, as `hopfed certs` makes them") from None
    check_private(path)
    return private, private.public_key()


def read(path: Path, argument: str) -> bytes:
    """Bytes of a file that must be there, and of the size of a key or a certificate."""
    try:
        if not path.is_file():  # a device or a pipe has no end
            raise OSError(None, "no such file" if not path.exists() else "not an ordinary one")
        if path.stat().st_size > LARGEST:
            raise OSError(None, f"larger than {LARGEST} bytes")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        why = getattr(error, "strerror", None) or error
        raise ArgumentError(argument, f"a file ({why})", path) from None


def _public(path: Path) -> bytes:
    data = read(path, "--keys")
    try:
        found: bytes = asymmetric.public_key_to_bytes(asymmetric.bytes_to_public_key(data))
        return found
    except (ValueError, AttributeError):
        raise DataError(f"{path}: not a public key, as `hopfed certs` makes them") from None


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
    days: int,
    names: x509.SubjectAlternativeName | None = None,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(subject))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks differ a little
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=names is None, path_length=None), critical=True)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
            rule = "an address or a name such as federation.example.org"
            raise ArgumentError("host", rule, shown(repr(host), 80)) from None
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
