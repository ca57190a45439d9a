"""A certificate authority, and certificates with their keys for the server and each client.

Server and clients show certificates that the authority signed, for nothing but their own side. A
client's name in its certificate is its number. Whoever has none is refused in the handshake.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from hopfed._lib.home_folder import check_own
from hopfed._lib.outputs import replacing
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError, shown

CLIENT = "client-"
DAYS, MOST_DAYS = 365, 36_500
MOST = 10_000  # clients
LARGEST = 1 << 20  # bytes of a key or a certificate

_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")


def make_keys(folder: Path, clients: int, hosts: Sequence[str], days: int = DAYS) -> list[Path]:
    """Write an authority, a server's certificate and the keys of `clients` clients."""
    require(1 <= clients <= MOST, "clients", f"1 to {MOST}", clients)
    require(bool(hosts), "host", "given: the name under which clients reach the server", "none")
    require(1 <= days <= MOST_DAYS, "days", f"1 to {MOST_DAYS}", days)
    names = [_name(host) for host in dict.fromkeys(hosts)]
    files = ["ca.pem", "server.pem", "server.key", *(f"{CLIENT}{c}.key" for c in range(clients))]
    paths = [folder / name for name in files]
    for path in paths:
        rule = "one without certificates and keys (--overwrite replaces them)"
        require(not os.path.lexists(path), "folder", rule, path)
    try:
        folder.mkdir(0o755, parents=True, exist_ok=True)
        check_own(folder.resolve())
    except OSError as error:
        rule = f"a folder that is yours alone to write ({error.strerror})"
        raise ArgumentError("folder", rule, folder) from None
    for path, data in zip(paths, _made(clients, names, days), strict=True):
        with replacing(path, private=True) as temporary:
            temporary.write_bytes(data)
            temporary.chmod(0o600 if path.suffix == ".key" else 0o644)
    return paths


def _made(clients: int, names: Sequence[x509.GeneralName], days: int) -> Iterator[bytes]:
    """What is in the files: of the authority, of the server, and of each client."""
    curve = ec.SECP256R1()
    authority, key = ec.generate_private_key(curve), ec.generate_private_key(curve)
    issuer = "hopfed authority"
    yield _pem(_certificate(issuer, authority, issuer, authority, days))
    other = x509.SubjectAlternativeName(names)
    yield _pem(_certificate("hopfed server", key, issuer, authority, days, other))
    yield _key(key)
    for c in range(clients):
        key = ec.generate_private_key(curve)
        yield _pem(_certificate(f"{CLIENT}{c}", key, issuer, authority, days)) + _key(key)


def client_key(path: Path) -> tuple[bytes, bytes]:
    """Certificate and key of a client, PEM."""
    data = read(path, "--key")
    try:
        certificate, begin, rest = data.partition(b"-----BEGIN PRIVATE KEY-----")
        key = begin + rest
        public = serialization.load_pem_private_key(key, None).public_key()
        if x509.load_pem_x509_certificate(certificate).public_key() != public:
            raise ValueError("of two clients")
    except (ValueError, TypeError):
        raise DataError(f"{path}: not a client's key, as `hopfed certs` makes them") from None
    check_private(path)
    return certificate, key


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


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
    days: int,
    names: x509.SubjectAlternativeName | None = None,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    own = subject == issuer
    use = ExtendedKeyUsageOID.CLIENT_AUTH if names is None else ExtendedKeyUsageOID.SERVER_AUTH
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(subject))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks differ a little
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=own, path_length=None), critical=True)
    )
    if not own:
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
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


def _key(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def check_private(path: Path) -> None:
    """Refuse a key of ours that others can read, as ssh does."""
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == os.getuid() and mode & 0o077:
        raise DataError(f"{path}: others can read this key (mode {mode:o}): chmod 600 {path}")
