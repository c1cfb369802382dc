"""Signatures of archives, in the form that `ssh-keygen -Y sign` and `-Y verify` have, with Ed25519 keys.

Called by the archive's writer and reader. An archive's digests are signed, and with them all that is in it. Reads the
key files that it is given.

    ssh-keygen -Y verify -f ALLOWED_SIGNERS -I NAME -n kvedge-vm -s SHA256SUMS.sig < SHA256SUMS
"""

from __future__ import annotations

import base64
import hashlib
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvedge.client.errors import UsageError
from kvedge.client.vm_files.archive_errors import DamagedFile

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_MAGIC: Final = b"SSHSIG"
_VERSION: Final = struct.pack(">I", 1)
# So that nothing that was signed for another purpose passes for an archive.
_NAMESPACE: Final = b"kvedge-vm"
_HASH: Final = b"sha512"
_KIND: Final = b"ssh-ed25519"
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----\n"
_END: Final = "-----END SSH SIGNATURE-----\n"
_LINE: Final = 70
_LONGEST_KEY: Final = 64 << 10
LONGEST_SIGNATURE: Final = 4096


def load_signer(path: Path) -> Ed25519PrivateKey:
    """A private key, as OpenSSH or as PEM.

    Raises:
        UsageError: for what is no Ed25519 key, or needs a passphrase.
        OSError: of the file.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    content = _read(path)
    is_ssh = b"OPENSSH PRIVATE KEY" in content
    try:
        load = serialization.load_ssh_private_key if is_ssh else serialization.load_pem_private_key
        key = load(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(
            f"--sign-key {path}: no Ed25519 key without a passphrase: ssh-keygen -t ed25519 -N '' -f FILE makes one"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"--sign-key {path}: the key is of another kind: ssh-keygen -t ed25519 makes an Ed25519 key")
    return key


def load_public_key(path: Path) -> bytes:
    """The 32 bytes of a public key, as OpenSSH's line or as PEM.

    Raises:
        UsageError: for what is no Ed25519 key.
        OSError: of the file.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    content = _read(path)
    is_pem = content.lstrip().startswith(b"-----")
    try:
        key = serialization.load_pem_public_key(content) if is_pem else serialization.load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"--verify-key {path}: no public key: name the file that ends in .pub") from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"--verify-key {path}: the key is of another kind than Ed25519")
    return key.public_bytes_raw()


def sign(key: Ed25519PrivateKey, digest: bytes) -> bytes:
    """The signature of a message of which this is the SHA-512, as `ssh-keygen` writes it."""
    public = _text(_KIND) + _text(key.public_key().public_bytes_raw())
    proof = _text(_KIND) + _text(key.sign(_wrap(digest)))
    blob = _MAGIC + _VERSION + _text(public) + _text(_NAMESPACE) + _text(b"") + _text(_HASH) + _text(proof)
    return _armour(blob)


def verify(signature: bytes, digest: bytes) -> bytes:
    """The public key by which a message of this SHA-512 was signed. Whether to trust it is for the caller to say.

    Raises:
        DamagedFile: for a signature that is not good, or of another form than :func:`sign` gives it.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public, proof = _take_apart(signature)
        Ed25519PublicKey.from_public_bytes(public).verify(proof, _wrap(digest))
    except (ValueError, InvalidSignature) as error:
        raise DamagedFile("the archive's signature is not good: it was changed after it was signed") from error
    return public


def fingerprint(public: bytes) -> str:
    """How `ssh-keygen -l` names a key."""
    digest = hashlib.sha256(_text(_KIND) + _text(public)).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _take_apart(signature: bytes) -> tuple[bytes, bytes]:
    lines = signature.decode("ascii").splitlines()
    blob = base64.b64decode("".join(lines[1:-1]), validate=True)
    # The places of the two values; everything else is the same in each.
    start = len(_MAGIC + _VERSION) + 4 + len(_text(_KIND)) + 4
    public, proof = blob[start : start + 32], blob[-64:]
    whole = _text(_KIND) + _text(public)
    rest = _text(_NAMESPACE) + _text(b"") + _text(_HASH) + _text(_text(_KIND) + _text(proof))
    if _armour(_MAGIC + _VERSION + _text(whole) + rest) != signature:
        raise ValueError("another form of signature")
    return public, proof


def _wrap(digest: bytes) -> bytes:
    return _MAGIC + _text(_NAMESPACE) + _text(b"") + _text(_HASH) + _text(digest)


def _armour(blob: bytes) -> bytes:
    text = base64.b64encode(blob).decode()
    lines = [f"{text[start : start + _LINE]}\n" for start in range(0, len(text), _LINE)]
    return f"{_BEGIN}{''.join(lines)}{_END}".encode()


def _text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LONGEST_KEY)
