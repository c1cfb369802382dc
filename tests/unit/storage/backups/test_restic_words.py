"""What restic 0.14 and OpenSSH 9.2 said when each place was broken by hand, and what is told of it."""

from __future__ import annotations

import time

import pytest

from kvedge.storage.backups.restic_words import judge_words

LOCK_TRACE = """Save(<lock/2f1e>) returned error, retrying after 552ms: open small/locks/2f1e: read-only file system
Save(<lock/2f1e>) returned error, retrying after 1.08s: open small/locks/2f1e: read-only file system
open small/locks/2f1e: read-only file system
github.com/restic/restic/internal/backend/local.(*Local).Save
\tgithub.com/restic/restic/internal/backend/local/local.go:170
main.main
\tgithub.com/restic/restic/cmd/restic/main.go:98
runtime.goexit
\truntime/asm_amd64.s:1594
unable to create lock in backend
"""
CHANGED = """subprocess ssh: @@@@@@@@@@@@@@@@@@@@@@@
subprocess ssh: @    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
subprocess ssh: Host key for [127.0.0.1]:5022 has changed and you have requested strict checking.
subprocess ssh: Host key verification failed.
Fatal: unable to open repository at sftp:x: unable to start the sftp session, error: EOF
"""
SESSION = "\nFatal: unable to open repository at sftp:x: unable to start the sftp session, error: EOF"
OPEN = "Fatal: unable to open config file: Stat: {}\nIs there a repository at the following location?\nsomewhere\n"


@pytest.mark.parametrize(
    ("said", "remedy", "is_fatal"),
    [
        ("Fatal: wrong password or no key found", "not the one that this place was made with", True),
        (CHANGED, "somebody else answers", True),
        (f"subprocess ssh: No ED25519 host key is known for [::1]:22 and …{SESSION}", "ssh-keyscan prints it", True),
        (f"subprocess ssh: a@b: Permission denied (publickey,keyboard-interactive).{SESSION}", "authorized_keys", True),
        (OPEN.format("The AWS Access Key Id you provided does not exist in our records."), "accessKeyId", True),
        (OPEN.format("Access Denied."), "check accessKeyId", True),
        (OPEN.format('Get "https://a/": x509: certificate signed by unknown authority'), "as ca.crt", True),
        (OPEN.format('Get "https://a/": tls: first record does not look like a TLS handshake'), "http://", True),
        (OPEN.format('Get "http://a/": dial tcp: lookup a on 10.0.0.53:53: no such host'), "name servers", False),
        (OPEN.format('Get "http://a/": dial tcp 127.0.0.1:5999: connect: connection refused'), "firewall", False),
        (f"subprocess ssh: ssh: connect to host a port 22: Connection refused{SESSION}", "firewall", False),
        ("Fatal: unable to save snapshot: write small/data/27/2-tmp: no space left on device", "make room", False),
        (LOCK_TRACE, "mount it read-write", True),
        ("Fatal: create repository at /r failed: mkdir /r/x: permission denied", "the group 107", True),
        ("Fatal: config cannot be loaded: unsupported repository version 3", "newer restic", True),
        ("Fatal: config or key 4729 is damaged: ciphertext verification failed", "the repository is damaged", True),
        ("Fatal: unable to create lock: repository is already locked by PID 7", "restic unlock", False),
    ],
    ids=[
        "wrong key", "another server", "unknown server", "key refused", "no such access key", "denied", "authority",
        "no TLS", "unknown name", "nobody listens", "no sshd", "full", "read-only", "not ours", "newer", "damaged",
        "locked",
    ],
)  # fmt: skip
def test_each_trouble_has_its_remedy(said: str, remedy: str, is_fatal: bool) -> None:
    judged = judge_words(said)
    assert remedy in judged.text
    assert judged.is_fatal is is_fatal
    assert not judged.is_absent


@pytest.mark.parametrize(
    "said",
    ["stat /repository/kvedge/config: no such file or directory", "Lstat: file does not exist",
     "The specified bucket does not exist", "<config/> does not exist"],
    ids=["directory", "SFTP", "S3", "REST"],
)  # fmt: skip
def test_a_place_without_a_repository_is_told_from_one_that_does_not_answer(said: str) -> None:
    assert judge_words(OPEN.format(said)).is_absent


def test_traces_and_what_was_tried_again_are_said_once() -> None:
    judged = judge_words(LOCK_TRACE)
    assert judged.text.count("read-only file system") == 1
    assert "main.go" not in judged.text
    assert judged.cannot_lock


def test_what_is_not_known_is_told_as_it_was_said_and_cut() -> None:
    judged = judge_words("Fatal: something new\n" * 9 + "x" * 100_000)
    assert judged.text.startswith("something new; xxx")
    assert len(judged.text) < 1000
    assert not judged.is_fatal
    assert judge_words("").text == "no word"


@pytest.mark.parametrize(
    "piece", ["x", "a.", "a.a*", "a(", "a.(", "a-a/", "<config/", "goroutine", "retrying after "], ids=lambda each: each
)
def test_a_long_line_without_a_space_is_judged_at_once(piece: str) -> None:
    """What a store answers comes through restic's words; once it took a processor for many seconds."""
    said = piece * (60_000 // len(piece)) + "  "
    begun = time.process_time()
    judge_words(said)
    assert time.process_time() - begun < 1
