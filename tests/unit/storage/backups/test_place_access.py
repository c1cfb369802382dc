"""How a place is reached: variables and options of restic, from the Secret's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.storage.backups.place_access import AccessError, make_environment, make_options


def secret(path: Path, *names: str) -> Path:
    for name in names:
        (path / name).write_text(f"{name}/1\n")
    return path


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("sftp:keeper@nas:/backups", "keeper@nas -s sftp"),
        ("sftp:nas:backups/box", "nas -s sftp"),
        ("sftp://keeper@nas:2222//backups", "-p 2222 keeper@nas -s sftp"),
        ("sftp://keeper@nas//backups", "keeper@nas -s sftp"),
    ],
    ids=["user", "no user", "port", "no port"],
)
def test_ssh_goes_to_the_servers_port_and_knows_it_by_its_key(tmp_path: Path, url: str, target: str) -> None:
    options = make_options(url, secret(tmp_path, "sshKey", "knownHosts"))
    assert options[0] == "-o"
    assert options[1].startswith("sftp.command=ssh -F /dev/null ")
    assert f"-i {tmp_path}/sshKey -o UserKnownHostsFile={tmp_path}/knownHosts" in options[1]
    assert "StrictHostKeyChecking=yes" in options[1]
    assert options[1].endswith(f" {target}")


@pytest.mark.parametrize("url", ["sftp:-oProxyCommand=x:/y", "sftp:a b:/c", "sftp:"])
def test_no_url_becomes_an_option_of_ssh(tmp_path: Path, url: str) -> None:
    with pytest.raises(AccessError, match="no place by SFTP"):
        make_options(url, secret(tmp_path, "sshKey", "knownHosts"))


@pytest.mark.parametrize("missing", ["sshKey", "knownHosts"])
def test_without_a_key_of_either_side_nobody_is_asked(tmp_path: Path, missing: str) -> None:
    there = {"sshKey", "knownHosts"} - {missing}
    with pytest.raises(AccessError, match=missing):
        make_options("sftp:nas:/b", secret(tmp_path, *there))


def test_the_users_of_stores_come_from_the_secret(tmp_path: Path) -> None:
    given = secret(tmp_path, "accessKeyId", "secretKey", "restUser", "restPassword", "ca.crt")
    assert make_environment("s3:https://a/b", given) == {
        "AWS_ACCESS_KEY_ID": "accessKeyId/1",
        "AWS_SECRET_ACCESS_KEY": "secretKey/1",
        "RESTIC_REPOSITORY": "s3:https://a/b",
    }
    assert make_environment("rest:https://a/b", given)["RESTIC_REPOSITORY"] == (
        "rest:https://restUser%2F1:restPassword%2F1@a/b"
    )
    assert make_options("rest:https://a/b", given) == ["--cacert", str(tmp_path / "ca.crt")]
