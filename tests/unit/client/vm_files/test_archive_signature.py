"""Archives that are signed: by which key, that `ssh-keygen` takes the signature, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kvedge.client.errors import UsageError
from kvedge.client.vm_files.archive_errors import NotTrusted
from kvedge.client.vm_files.archive_signature import fingerprint, load_public_key, load_signer
from tests.unit.client.vm_files.archives import read, write

SSH = serialization.PrivateFormat.OpenSSH
PEM = serialization.PrivateFormat.PKCS8


def write_keys(place: Path, form: serialization.PrivateFormat = SSH, secret: bytes | None = None) -> tuple[Path, Path]:
    """A private key and its public one."""
    key = Ed25519PrivateKey.generate()
    locked = serialization.BestAvailableEncryption(secret) if secret else serialization.NoEncryption()
    private, public = place / "key", place / "key.pub"
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))
    is_ssh = form is SSH
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.OpenSSH if is_ssh else serialization.Encoding.PEM,
            serialization.PublicFormat.OpenSSH if is_ssh else serialization.PublicFormat.SubjectPublicKeyInfo,
        )
    )
    return private, public


@pytest.mark.parametrize("form", [SSH, PEM], ids=["openssh", "pem"])
def test_an_archive_is_taken_by_the_key_that_has_signed_it(tmp_path: Path, form: serialization.PrivateFormat) -> None:
    private, public = write_keys(tmp_path, form)
    path = write(tmp_path / "vm", b"disk" * 200, signer=load_signer(private))
    assert read(path, load_public_key(public)) == [b"disk" * 200]


def test_another_key_is_refused_with_both_fingerprints(tmp_path: Path) -> None:
    signer = Ed25519PrivateKey.generate()
    _, other = write_keys(tmp_path)
    path = write(tmp_path / "vm", b"disk", signer=signer)
    with pytest.raises(NotTrusted) as told:
        read(path, load_public_key(other))
    assert fingerprint(signer.public_key().public_bytes_raw()) in told.value.text
    assert fingerprint(load_public_key(other)) in told.value.text


def test_one_that_is_not_signed_is_refused_when_a_key_is_given(tmp_path: Path) -> None:
    _, public = write_keys(tmp_path)
    path = write(tmp_path / "vm", b"disk")
    with pytest.raises(NotTrusted, match="is not signed"):
        read(path, load_public_key(public))


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")
def test_ssh_keygen_takes_the_signature(tmp_path: Path) -> None:
    private, public = write_keys(tmp_path)
    path = write(tmp_path / "vm", b"disk", signer=load_signer(private))
    subprocess.run(["tar", "-xf", path, "-C", tmp_path], check=True)
    (tmp_path / "allowed").write_text(f"backup {public.read_text()}\n")
    command = ["ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", "backup", "-n", "kvedge-vm"]
    with (tmp_path / "SHA256SUMS").open("rb") as sums:
        done = subprocess.run(
            [*command, "-s", "SHA256SUMS.sig"], stdin=sums, cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert fingerprint(load_public_key(public)) in done.stdout


def test_a_key_with_a_passphrase_is_refused_with_the_remedy(tmp_path: Path) -> None:
    private, _ = write_keys(tmp_path, PEM, b"secret")
    with pytest.raises(UsageError, match="without a passphrase: ssh-keygen -t ed25519"):
        load_signer(private)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    path = tmp_path / "rsa"
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, PEM, serialization.NoEncryption()))
    with pytest.raises(UsageError, match="of another kind"):
        load_signer(path)
    path.write_bytes(key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH))
    with pytest.raises(UsageError, match="another kind than Ed25519"):
        load_public_key(path)


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"not a key")
    with pytest.raises(UsageError, match=r"no public key: name the file that ends in \.pub"):
        load_public_key(path)
    with pytest.raises(UsageError, match="no Ed25519 key"):
        load_signer(path)
