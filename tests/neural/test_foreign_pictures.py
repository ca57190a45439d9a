"""A picture that somebody else sent has no program run."""

import os

import pytest

from hopfed.errors import DataError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_picture_has_no_program_run(folder, monkeypatch):
    """Pillow looks at the bytes: of PostScript called .jpg it has a program make a picture."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    from hopfed.neural.data.folders import domains

    (folder / "bin").mkdir()
    (folder / "bin" / "gs").write_text(f"#!/bin/sh\ntouch {folder}/ran\necho 10.0\n")
    (folder / "bin" / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    for domain in ("photo", "sketch"):
        for name in ("cat", "dog"):
            (folder / "sent" / domain / name).mkdir(parents=True)
            image.new("RGB", (8, 8)).save(folder / "sent" / domain / name / "0.jpg")
    assert domains(folder / "sent", 8).inputs.shape == (4, 3, 8, 8)
    script = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n{} loop\n%%EOF\n"
    (folder / "sent" / "photo" / "cat" / "0.jpg").write_text(script)
    with pytest.raises(DataError):
        domains(folder / "sent", 8)
    assert not (folder / "ran").exists()
