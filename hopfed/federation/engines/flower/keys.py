"""A certificate authority, the server's certificate, and the clients' keys.

The server shows a certificate that the authority signed; a client signs its requests with a key
whose public half the server holds. Whoever has neither is refused.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.supercore.primitives import asymmetric

from hopfed.errors import ArgumentError, DataError

CA, SERVER = "ca", "server"
DAYS = 365


def make_keys(folder: Path, clients: int, hosts: Sequence[str], days: int = DAYS) -> list[Path]:
    """Write an authority, a server's certificate and the keys of `clients` clients.

    Parameters
    ----------
    folder : must not hold an authority already.
    hosts : names or addresses under which clients reach the server.

    Returns
    -------
    ``ca.pem`` (everyone), ``server.pem`` and ``server.key`` (the server), ``client-0.key`` ...
    (one client each) and ``client-0.pub`` ... (the server). Only their owner can read keys. The
    authority's own key is thrown away: nobody can sign another certificate with it.
    """
    if clients < 1:
        raise ArgumentError("clients", "at least 1", clients)
    if not hosts:
        raise ArgumentError("host", "given: the name under which clients reach the server", "none")
    if (folder / f"{CA}.pem").exists():
        raise ArgumentError("folder", "one without certificates", folder)
    folder.mkdir(parents=True, exist_ok=True)
    authority, key = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    own = _certificate("hopfed authority", authority, "hopfed authority", authority, days)
    names = x509.SubjectAlternativeName([_name(host) for host in hosts])
    shown = _certificate("hopfed server", key, "hopfed authority", authority, days, names)
    files = {
        f"{CA}.pem": _pem(own),
        f"{SERVER}.pem": _pem(shown),
        f"{SERVER}.key": asymmetric.private_key_to_bytes(key),
    }
    for c in range(clients):
        private, public = asymmetric.generate_key_pairs()
        files[f"client-{c}.key"] = asymmetric.private_key_to_bytes(private)
        files[f"client-{c}.pub"] = asymmetric.public_key_to_bytes(public)
    for name, data in files.items():
        path = folder / name
        path.touch(mode=0o600 if name.endswith(".key") else 0o644)
        path.write_bytes(data)
    return [folder / name for name in files]


def public_keys(folder: Path, clients: int) -> list[bytes]:
    """Public keys of the clients 0 .. clients - 1, in the form that Flower compares."""
    keys = [_public(folder / f"client-{c}.pub") for c in range(clients)]
    if len(set(keys)) < len(keys):
        raise DataError(f"{folder}: two clients have the same key")
    return keys


def private_key(path: Path) -> tuple[Any, Any]:
    """Private and public key of a client."""
    data = read(path, "--key")
    try:
        private = asymmetric.bytes_to_private_key(data)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError("of another kind")
    except (ValueError, TypeError):
        raise DataError(f"{path}: not a client's key, as `hopfed certs` makes them") from None
    return private, private.public_key()


def read(path: Path, argument: str) -> bytes:
    """Bytes of a file that must be there."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArgumentError(argument, f"a file ({error.strerror})", path) from None


def _public(path: Path) -> bytes:
    data = read(path, "--keys")
    try:
        return asymmetric.public_key_to_bytes(asymmetric.bytes_to_public_key(data))
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
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
