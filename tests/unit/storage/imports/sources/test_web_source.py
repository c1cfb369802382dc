"""Which authorities a worker believes."""

from __future__ import annotations

import ssl
from pathlib import Path

from kvedge.storage.imports.sources.web_source import load_authorities
from tests.support.certificate_files import FileAuthority


def test_authorities_of_the_distribution_and_of_the_operator_are_believed(tmp_path: Path) -> None:
    for name in ("public", "own"):
        (tmp_path / name).mkdir()
        FileAuthority(tmp_path / name, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_authorities(context, [tmp_path / "public", tmp_path / "own", tmp_path / "missing"])
    subjects = [dict(pair[0] for pair in found["subject"])["commonName"] for found in context.get_ca_certs()]
    assert sorted(subjects) == ["own", "public"]


def test_a_file_that_is_no_certificate_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.crt").write_text("no certificate")
    (tmp_path / "b.crt").write_bytes(b"\xff" * 64)
    FileAuthority(tmp_path, "own")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_authorities(context, [tmp_path])
    assert context.cert_store_stats()["x509_ca"] == 1


def test_a_comment_in_any_language_beside_a_certificate_is_passed_over(tmp_path: Path) -> None:
    authority = FileAuthority(tmp_path, "own")
    authority.ca.write_bytes("# Fräulein Müllers Stelle\n".encode() + authority.ca.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_authorities(context, [tmp_path])
    assert context.cert_store_stats()["x509_ca"] == 1
