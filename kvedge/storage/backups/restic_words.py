"""What restic says of its failure, told shorter, and with what to do about it.

Called by the door to restic. Pure. restic ends with one code for all that can go wrong: its words, and those of ssh and
of the store that it passes on, are all there is. What is not known here is told as it was said.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

# Of what is told; a condition and an event have no more room.
_LONGEST: Final = 700
# Of Go's traces, which restic prints after the words of some failures.
_TRACE: Final = re.compile(r"\t|[\w./-]+\.\(?[\w*.)]|goroutine |runtime\.|main\.")
# A name is looked for at its first letter alone: a store may say thousands of letters without a space.
_RETRIED: Final = re.compile(r"(?:\b\w+\(.{1,200}?\) returned error, )?retrying after [^ ]{1,30}: ")
_ASKS: Final = "Is there a repository at the following location?"
_SSH: Final = "subprocess ssh: "
_ABSENT: Final = re.compile(
    r"no such file or directory|file does not exist|specified (?:bucket|key) does not exist|\(404\)|404 Not Found"
    r"|<config/\w*> does not exist"
)


class Judged(Struct, frozen=True):
    """`is_absent`: there is no repository; `is_fatal`: another try cannot help; `cannot_lock`: it may be read only."""

    text: str
    is_fatal: bool = False
    is_absent: bool = False
    cannot_lock: bool = False


class _Known(Struct, frozen=True):
    words: re.Pattern[str]
    remedy: str
    is_fatal: bool = True


# The first one that is found counts: what is nearer to the cause stands before what follows from it.
_KNOWN: Final = (
    _Known(
        re.compile("wrong password or no key found"),
        "the key in the repository's Secret is not the one that this place was made with, or another program keeps"
        " something there",
    ),
    _Known(
        re.compile("REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .{1,200} has changed"),
        "the server is not the one whose key the Secret has as knownHosts: put the new key there if it was set up anew,"
        " and if it was not, somebody else answers in its place",
    ),
    _Known(
        re.compile("host key is known for|Host key verification failed"),
        "knownHosts in the repository's Secret has no key of this server: ssh-keyscan prints it; compare it at the"
        " server before you put it there",
    ),
    _Known(
        re.compile(r"Permission denied \((?:publickey|password|keyboard|gssapi|hostbased)"),
        "the server does not take the Secret's sshKey: the public half belongs into authorized_keys of that user",
    ),
    _Known(
        re.compile("error in libcrypto|UNPROTECTED PRIVATE KEY FILE|Load key .{1,200}: invalid format"),
        "the Secret's sshKey cannot be used: it must be a private key of OpenSSH without a passphrase",
    ),
    _Known(
        re.compile(
            "Access Key Id you provided does not exist|InvalidAccessKeyId|SignatureDoesNotMatch|signature we calculated"
            r"|Access Denied|AccessDenied|403 Forbidden|\(403\)|401 Unauthorized|\(401\)"
        ),
        "the store refuses: check accessKeyId and secretKey, or restUser and restPassword, in the repository's Secret,"
        " and what they may do there",
    ),
    _Known(
        re.compile("x509: "),
        "the server's certificate is not trusted: put its authority into the repository's Secret as ca.crt",
    ),
    _Known(
        re.compile("does not look like a TLS handshake|server gave HTTP response to HTTPS client"),
        "the server speaks HTTP only: the URL must say http://, and then all but the backups themselves can be read on"
        " the way",
    ),
    _Known(
        re.compile("Bucket name (?:cannot|contains)|invalid bucket name"),
        "the URL of the repository must be s3:https://HOST/BUCKET/PATH",
    ),
    _Known(
        re.compile("no such host|Could not resolve hostname"),
        "this node does not know the server's name: check the URL and the node's name servers",
        is_fatal=False,
    ),
    _Known(
        re.compile(
            "[Cc]onnection refused|[Nn]o route to host|[Nn]etwork is unreachable|i/o timeout|[Cc]onnection timed out"
            "|[Cc]onnection reset by peer|broken pipe|Connection closed by|server not responding"
        ),
        "the server cannot be reached from this node: is it on, and does a firewall let this node through?",
        is_fatal=False,
    ),
    _Known(
        re.compile(
            "no space left on device|[Dd]isk quota exceeded|enough space|QuotaExceeded|StorageFull|507 Insufficient"
            r'|\(507\)|sftp: "Failure"|XMinioStorageFull'
        ),
        "the place is full: make room there, or let older backups go",
        is_fatal=False,
    ),
    _Known(re.compile("read-only file system"), "nothing can be written there: mount it read-write"),
    _Known(
        re.compile("permission denied|Permission denied"),
        "the worker may not write there: the directory must be of the user and the group 107, or of the URL's user",
    ),
    _Known(
        re.compile("repository version .{1,40} too high|(?:unsupported|invalid) repository version"),
        "the place was made by a newer restic than this node has: install that one on every node",
    ),
    _Known(
        re.compile("already locked"),
        "another program works in the repository; `restic unlock` once none does",
        is_fatal=False,
    ),
    _Known(
        re.compile(
            "is damaged|ciphertext verification failed|invalid data returned|hash does not match|not found in"
            " (?:index|repository)"
        ),
        "the repository is damaged: `restic check --read-data` says where; what other backups share with it is lost in"
        " them too",
    ),
)


def judge_words(said: str) -> Judged:
    """What a failed restic has said, cleaned, with the remedy, and what follows from it."""
    words = _clean(said)
    is_absent = _ASKS in said and _ABSENT.search(words) is not None
    cannot_lock = "unable to create lock in backend" in said
    if is_absent:
        return Judged(words[:_LONGEST], is_absent=True, cannot_lock=cannot_lock)
    for known in _KNOWN:
        if known.words.search(words):
            return Judged(f"{words[:_LONGEST]}: {known.remedy}", known.is_fatal, cannot_lock=cannot_lock)
    return Judged(words[:_LONGEST] or "no word", cannot_lock=cannot_lock)


def _clean(said: str) -> str:
    """Without traces, banners, and what was said again and again as it was tried again."""
    told: dict[str, None] = {}
    lines = iter(said.splitlines())
    for line in lines:
        if line.strip() == _ASKS:
            # The place is named in front.
            next(lines, None)
            continue
        text = _RETRIED.sub("", line).strip().removeprefix(_SSH).removeprefix("Fatal: ").strip("@ ")
        if not text or _is_trace(line):
            continue
        told.setdefault(text)
    return "; ".join(told)


def _is_trace(line: str) -> bool:
    return " " not in line.strip() and _TRACE.match(line) is not None
