"""Keys, ledgers and locks: only their owner may read and write them."""

import os
import stat

import pytest
from asking import signs
from cryptography import x509

from hopfed.errors import BackendError, DataError, LocalError
from hopfed.federation.machines.keys import make_keys, own_key
from hopfed.hopfield.ledger import Ledger, Terms
from hopfed.neural.training.together import keep_compiled_at_home
from hopfed.tables.examples import as_examples


def test_who_gets_which_file_whatever_the_umask(tmp_path):
    before = os.umask(0)
    files = make_keys(tmp_path / "keys", 2, ["127.0.0.1", "::1", "host.example", "a_b-c"])
    os.umask(before)
    assert [path.name for path in files] == ["ca.pem", "server.key", "client-0.key", "client-1.key"]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in files]
    assert modes == [0o644, 0o600, 0o600, 0o600]
    server, first, second = (own_key(path, "--key") for path in files[1:])
    assert first != second
    for (certificate, _), use in ((first, "clientAuth"), (server, "serverAuth")):  # not both
        held = x509.load_pem_x509_certificate(certificate).extensions
        (used,) = held.get_extension_for_class(x509.ExtendedKeyUsage).value
        addresses = [e for e in held if isinstance(e.value, x509.SubjectAlternativeName)]
        assert (used._name, len(addresses)) == (use, int(use == "serverAuth"))
    mixed = tmp_path / "keys" / "mixed.key"
    for data in (first[0] + second[1], first[0], first[1], b"\xff\x00"):
        mixed.write_bytes(data)
        with pytest.raises(DataError, match="not a key with its certificate"):
            own_key(mixed, "--key")


WRONG = [
    (("--clients", "99999999"), "clients must be 1 to 10000"),
    (("--clients", "1", "--days", "0"), "days must be 1 to 36500"),
    (("--clients", "1", "--host", "\x1b[2J"), r"got '\x1b[2J'"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_bad_settings_are_one_line_and_no_folder(tmp_path, hopfed, options, words):
    assert words in hopfed.refused("certs", tmp_path / "keys", *options)
    assert not (tmp_path / "keys").exists()


def test_a_key_that_others_can_read_is_refused_but_where_it_is_lent(tmp_path, monkeypatch):
    key = make_keys(tmp_path, 1, ["127.0.0.1"])[-1]
    for generous in (0o644, 0o640, 0o604):
        key.chmod(generous)
        with pytest.raises(DataError, match=rf"others can read this key \(mode {generous:o}\)"):
            own_key(key, "--key")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    own_key(key, "--key")


def charge(folder):
    return Ledger(folder).charge(as_examples(signs(60)), Terms(1.0, 1e-5))


def test_nothing_is_kept_where_others_can_write_or_a_link_leads_away(tmp_path, monkeypatch):
    place, linked, lost = (tmp_path / name for name in ("place", "linked", "lost"))
    place.mkdir()
    place.chmod(0o777)
    linked.symlink_to(place)
    lost.symlink_to(tmp_path / "gone")  # a disk that is not there
    for folder, words in ((place, "others own it"), (linked, "others own it"), (lost, "a link to")):
        with pytest.raises(LocalError, match=words):
            charge(folder)
    monkeypatch.setenv("HOPFED_HOME", str(place))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with pytest.raises(BackendError, match="others own it or can write to it"):
        keep_compiled_at_home()
    assert not list(place.iterdir())
    place.chmod(0o700)  # one's own links are followed to one's own folders
    charge(linked)
    assert {path.stat().st_mode & 0o77 for path in place.iterdir()} == {0}
    (place / "lock").unlink()
    (place / "lock").symlink_to(tmp_path / "away")
    with pytest.raises(LocalError, match="cannot be used"):
        charge(place)
    assert not {"gone", "away"} & {path.name for path in tmp_path.iterdir()}
