"""Keys: a certificate authority, and certificates with keys for the server and each client.

Server and clients show certificates that the authority signed, valid for their own side only. A
client's name in its certificate is its number. Without a certificate the handshake fails.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from hopfed._lib.home_folder import check_own
from hopfed._lib.outputs import replacing
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError, safe_line

CLIENT = "client-"
LARGEST = 1 << 20  # bytes of a key or a certificate

_HOST = re.compile(r"(?!.{254})[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(\.[A-Za-z0-9_-]{1,63})*")


def make_keys(folder: Path, clients: int, hosts: Sequence[str], days: int = 365) -> list[Path]:
    """Write certificates and keys of an authority, server and clients to a folder; return paths."""
    require(1 <= clients <= 10_000, "clients", "1 to 10000", clients)
    require(1 <= days <= 36_500, "days", "1 to 36500", days)
    names = [_name(host) for host in dict.fromkeys(hosts)]
    paths = [folder / "ca.pem", folder / "server.key"]
    paths += [folder / f"{CLIENT}{c}.key" for c in range(clients)]
    rule = "one without certificates and keys (--overwrite replaces them)"
    for path in paths:
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


def own_key(path: Path, argument: str) -> tuple[bytes, bytes]:
    """Read certificate and key, PEM, of a server or client from a file that others cannot read."""
    certificate, begin, rest = _read(path, argument).partition(b"-----BEGIN PRIVATE KEY-----")
    key = begin + rest
    try:
        public = serialization.load_pem_private_key(key, None).public_key()
        if x509.load_pem_x509_certificate(certificate).public_key() != public:
            raise ValueError("of another certificate")
    except (ValueError, TypeError):
        words = "not a key with its certificate, as `hopfed certs` makes them"
        raise DataError(f"{path}: {words}") from None
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == os.getuid() and mode & 0o077:
        raise DataError(f"{path}: others can read this key (mode {mode:o}): chmod 600 {path}")
    return certificate, key


def read_authority(path: Path, argument: str) -> bytes:
    """Read the certificate of an authority, PEM, from a file."""
    data = _read(path, argument)
    try:
        x509.load_pem_x509_certificate(data)
    except ValueError:
        raise DataError(f"{path}: not a certificate, as `hopfed certs` makes them") from None
    return data


def _read(path: Path, argument: str) -> bytes:
    """Read a file, which must exist and be no larger than a key or a certificate."""
    fits = path.is_file() and path.stat().st_size <= LARGEST and os.access(path, os.R_OK)
    require(fits, argument, "a file that can be read, as `hopfed certs` makes it", path)
    return path.read_bytes()


def _made(clients: int, names: Sequence[x509.GeneralName], days: int) -> Iterator[bytes]:
    """Contents of the files: of the authority, of the server, and of each client."""
    now, pem = datetime.datetime.now(datetime.UTC), serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    issuer, signer = "hopfed authority", ec.generate_private_key(ec.SECP256R1())

    def made(subject: str, *more: x509.ExtensionType) -> tuple[bytes, bytes]:
        """Make a certificate and its key."""
        own = subject == issuer
        key = signer if own else ec.generate_private_key(ec.SECP256R1())
        both = ([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)] for n in (issuer, subject))
        by, of = map(x509.Name, both)
        builder = (
            x509.CertificateBuilder(by, of, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks differ a little
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=own, path_length=None), critical=True)
        )
        for extension in more:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(signer, hashes.SHA256()).public_bytes(pem)
        return certificate, key.private_bytes(pem, form, plain)

    yield made(issuer)[0]
    uses = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    server, client = (x509.ExtendedKeyUsage([use]) for use in uses)
    yield b"".join(made("hopfed server", server, x509.SubjectAlternativeName(names)))
    for c in range(clients):
        yield b"".join(made(f"{CLIENT}{c}", client))


def _name(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    rule = "an address or a name such as federation.example.org"
    require(bool(_HOST.fullmatch(host)), "host", rule, safe_line(repr(host), 80))
    return x509.DNSName(host)
