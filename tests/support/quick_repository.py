"""A repository of restic whose password is cheap to check, for tests that are not about how one is made.

restic makes a key that takes half a second of a processor to open, which is right for a password that a person chose.
A test runs it twenty times. The files are as restic's design document describes them ("Keys, Encryption and MAC"), with
the least cost that scrypt has; restic reads and writes there as in any other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from cryptography.hazmat.primitives.poly1305 import Poly1305

_COST: Final = {"N": 2, "r": 1, "p": 1}
_DIRECTORIES: Final = ("data", "index", "keys", "locks", "snapshots")
# Where restic cuts a file in pieces; it takes an irreducible polynomial of this degree alone, and this is one.
_POLYNOMIAL: Final = "3da3358b4dc173"


def lay_repository(where: Path, password: str) -> None:
    """An empty repository of version 2 at this place, which must not exist yet."""
    for name in _DIRECTORIES:
        (where / name).mkdir(parents=True)
    master = os.urandom(64)
    _write(where / "config", _seal(master, _json(version=2, id=os.urandom(32).hex(), chunker_polynomial=_POLYNOMIAL)))
    key = _key_file(password, master)
    _write(where / "keys" / hashlib.sha256(key).hexdigest(), key)


def _key_file(password: str, master: bytes) -> bytes:
    salt = os.urandom(64)
    user = hashlib.scrypt(password.encode(), salt=salt, n=_COST["N"], r=_COST["r"], p=_COST["p"], dklen=64)
    opened = _json(mac={"k": _text(master[32:48]), "r": _text(master[48:])}, encrypt=_text(master[:32]))
    return _json(
        created="2026-01-02T03:04:05Z", username="root", hostname="test", kdf="scrypt", **_COST, salt=_text(salt),
        data=_text(_seal(user, opened)),
    )  # fmt: skip


def _seal(key: bytes, content: bytes) -> bytes:
    """AES-256-CTR and Poly1305-AES: `key` has 32 bytes for the one, and `k` and `r` for the other."""
    encrypt, k, r = key[:32], key[32:48], key[48:]
    nonce = os.urandom(16)
    sealed = _run(Cipher(AES(encrypt), CTR(nonce)), content)
    return nonce + sealed + Poly1305.generate_tag(r + _run(Cipher(AES(k), ECB()), nonce), sealed)


def _run(cipher: Cipher[CTR] | Cipher[ECB], content: bytes) -> bytes:
    encryptor = cipher.encryptor()
    return encryptor.update(content) + encryptor.finalize()


def _json(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o400)
