"""The beginning of RFB, VNC's protocol: a viewer that shows a password, and a guest's screen that wants none.

Called by the session of `kvedge vnc --password`. Pure: bytes go in and come out, the caller moves them. What a viewer
sends before it has shown the password is a few bytes of fixed lengths; more is left where it is.

The password is proved by DES, the only way that all viewers have (RFC 6143, 7.2.2): it lasts for one connection of
this computer, and is worth nothing on a network.
"""

from __future__ import annotations

import hmac
import secrets
import string
from collections.abc import Callable
from typing import Final

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

# All of a password that VNC's DES takes.
PASSWORD_LENGTH: Final = 8
CHALLENGE_LENGTH: Final = 16
_LETTERS: Final = string.ascii_letters + string.digits
_VERSION_LENGTH: Final = 12
_OWN_VERSION: Final = b"RFB 003.008\n"
_NONE: Final = 1
_VNC_PASSWORD: Final = 2
_OK: Final = (0).to_bytes(4)
_FAILED: Final = (1).to_bytes(4)
# A reason of a guest's that is longer is no reason.
_LONGEST_REASON: Final = 1024


class NoHandshake(Exception):
    """The other side does not speak RFB, or wants what it cannot have."""


def make_password() -> str:
    """A new one, of letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(PASSWORD_LENGTH))


def answer_challenge(password: str, challenge: bytes) -> bytes:
    """What a viewer answers that knows the password."""
    padded = password.encode("latin-1", "replace")[:PASSWORD_LENGTH].ljust(PASSWORD_LENGTH, b"\0")
    # Each byte of the key with its bits in reverse, as the first VNC had it. Three times the same key is single DES.
    key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in padded)
    encryptor = Cipher(TripleDES(key * 3), modes.ECB()).encryptor()
    return encryptor.update(challenge) + encryptor.finalize()


class _Talk:
    """One side of a conversation whose next words have a known length."""

    def __init__(self) -> None:
        self._heard = bytearray()
        self._said = bytearray()
        self._wanted = 0
        self._take: Callable[[bytes], None] | None = None

    def receive(self, data: bytes) -> None:
        """Take what the other side says. Raises NoHandshake."""
        self._heard += data
        while self._take is not None and len(self._heard) >= self._wanted:
            words = bytes(self._heard[: self._wanted])
            del self._heard[: self._wanted]
            self._take(words)

    def to_send(self) -> bytes:
        """What is to be said now."""
        said = bytes(self._said)
        self._said.clear()
        return said

    @property
    def is_over(self) -> bool:
        """Whether nothing more of the handshake is waited for."""
        return self._take is None

    def rest(self) -> bytes:
        """What came behind the handshake, once."""
        rest = bytes(self._heard)
        self._heard.clear()
        return rest

    def _wait_for(self, length: int, take: Callable[[bytes], None] | None) -> None:
        self._wanted, self._take = length, take


class ViewerHandshake(_Talk):
    """With a viewer, until it has answered; `accept` or `refuse` is the last word."""

    def __init__(self, password: str, challenge: bytes = b"") -> None:
        super().__init__()
        self._challenge = challenge or secrets.token_bytes(CHALLENGE_LENGTH)
        self._expected = answer_challenge(password, self._challenge)
        self._minor = 8
        self.knows_password = False
        self._said += _OWN_VERSION
        self._wait_for(_VERSION_LENGTH, self._take_version)

    def accept(self) -> None:
        """Tell the viewer that it is in."""
        self._said += _OK

    def refuse(self, reason: str) -> None:
        """Tell the viewer why it is not."""
        self._said += _FAILED
        if self._minor >= 8:
            words = reason.encode()
            self._said += len(words).to_bytes(4) + words

    def _take_version(self, words: bytes) -> None:
        self._minor = _read_minor(words)
        if self._minor < 7:
            # An old viewer is told, and does not choose.
            self._said += _VNC_PASSWORD.to_bytes(4)
            self._challenge_it()
        else:
            self._said += bytes([1, _VNC_PASSWORD])
            self._wait_for(1, self._take_choice)

    def _take_choice(self, words: bytes) -> None:
        if words[0] != _VNC_PASSWORD:
            raise NoHandshake("the viewer wants to show no password")
        self._challenge_it()

    def _challenge_it(self) -> None:
        self._said += self._challenge
        self._wait_for(CHALLENGE_LENGTH, self._take_answer)

    def _take_answer(self, words: bytes) -> None:
        self.knows_password = hmac.compare_digest(words, self._expected)
        self._wait_for(0, None)


class GuestHandshake(_Talk):
    """With a guest's screen, as a viewer that needs no password: the API server has judged its user."""

    def __init__(self) -> None:
        super().__init__()
        self._wait_for(_VERSION_LENGTH, self._take_version)

    def _take_version(self, words: bytes) -> None:
        if _read_minor(words) < 8:
            raise NoHandshake("the guest's screen speaks an RFB that is too old")
        self._said += _OWN_VERSION
        self._wait_for(1, self._take_count)

    def _take_count(self, words: bytes) -> None:
        if words[0]:
            self._wait_for(words[0], self._take_kinds)
        else:
            self._wait_for(4, self._take_reason_length)

    def _take_kinds(self, words: bytes) -> None:
        if _NONE not in words:
            raise NoHandshake("the guest's screen wants a password")
        self._said += bytes([_NONE])
        self._wait_for(4, self._take_result)

    def _take_result(self, words: bytes) -> None:
        if words != _OK:
            self._wait_for(4, self._take_reason_length)
        else:
            self._wait_for(0, None)

    def _take_reason_length(self, words: bytes) -> None:
        self._wait_for(min(int.from_bytes(words), _LONGEST_REASON), self._take_reason)

    def _take_reason(self, words: bytes) -> None:
        text = "".join(letter for letter in words.decode(errors="replace") if letter.isprintable())
        raise NoHandshake(f"the guest's screen refuses: {text}")


def _read_minor(words: bytes) -> int:
    """The minor version that counts: 3, 7 or 8; Apple's, with another one, speaks the last."""
    major, _, minor = words[4:11].decode("ascii", "replace").partition(".")
    if words[:4] != b"RFB " or words[11:] != b"\n" or not (major.isdecimal() and minor.isdecimal()) or int(major) < 3:
        raise NoHandshake("the other side does not speak RFB")
    return 8 if int(minor) >= 8 or int(major) > 3 else 7 if int(minor) == 7 else 3
