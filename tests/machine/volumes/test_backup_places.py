"""Where backups lie: an OpenSSH server, disks that are full, read-only or somebody else's, servers that hang. By the
worker's own functions; restic, sshd and file systems are real.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY, BackupJob, BackupVolume
from kvedge.storage.backups import restic_client
from kvedge.storage.backups.backup_errand import BackupPlaces, bring_back, keep_backup, read_record
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.imports.import_progress import ImportProgress
from tests.support.sftp_server import SftpServer, make_key, sftp_server
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(200),
    pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic: apt install restic"),
]
ID = "0f5c0000-0000-4000-8000-00000000000a"


@pytest.fixture(scope="module")
def server() -> Iterator[SftpServer]:
    with sftp_server() as found:
        yield found


class Site:
    """A disk that is to be kept, and the keys of a repository's Secret."""

    def __init__(self, path: Path, size: int = 4 << 20) -> None:
        self.path = path
        self.disk = os.urandom(size)
        self.places = BackupPlaces(path / "volumes", path / "devices")
        (path / "volumes" / "v0").mkdir(parents=True)
        (path / "volumes" / "v0" / "disk.img").write_bytes(self.disk)
        self.secret = path / "secret"
        self.secret.mkdir()
        self.give(**{PASSWORD_KEY: "a key"})

    def give(self, **keys: str) -> None:
        for name, text in keys.items():
            (self.secret / name).write_text(text)
            (self.secret / name).chmod(0o600)

    def job(self, repository: str, mode: str = "backup") -> BackupJob:
        volume = BackupVolume(name="root", place="v0", size=len(self.disk), uid="uid")
        return BackupJob(
            mode=mode, repository=repository, backup_id=ID, namespace="default", vm="web", volumes=[volume], content={}
        )  # type: ignore[arg-type] # the mode is one of them

    def keep(self, repository: str) -> None:
        keep_backup(self.job(repository), ResticClient(repository, self.secret), self.places, ImportProgress())

    def bring_back(self, repository: str) -> bytes:
        client, back = ResticClient(repository, self.secret), self.path / "back"
        assert read_record(self.job(repository), client).volumes[0].size == len(self.disk)
        (back / "v0").mkdir(parents=True, exist_ok=True)
        bring_back(self.job(repository, "restore"), client, BackupPlaces(back), ImportProgress())
        return (back / "v0" / "disk.img").read_bytes()

    def fail(self, repository: str) -> BackupFailure:
        with pytest.raises(BackupFailure) as caught:
            self.keep(repository)
        return caught.value


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_disk_goes_to_a_server_over_ssh_and_comes_back(site: Site, server: SftpServer) -> None:
    site.give(sshKey=server.key, knownHosts=server.known)
    site.keep(server.url)
    assert site.bring_back(server.url) == site.disk


def test_a_server_that_is_another_one_gets_nothing(site: Site, server: SftpServer, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    other = f"[{server.address}]:{server.port} {(tmp_path / 'other.pub').read_text()}"
    site.give(sshKey=server.key, knownHosts=other)
    failure = site.fail(f"{server.url}2")
    assert "somebody else answers in its place" in failure.message
    assert failure.fatal
    site.give(knownHosts="nas ssh-ed25519 AAAA\n")
    assert "ssh-keyscan" in site.fail(f"{server.url}2").message
    site.give(knownHosts=server.known, sshKey=(tmp_path / "other").read_text())
    assert "authorized_keys" in site.fail(f"{server.url}2").message
    assert not Path(f"{server.data}/r2").exists()


def test_a_server_that_goes_in_mid_backup_leaves_no_backup_and_the_next_try_ends_it(
    site: Site, server: SftpServer, tmp_path: Path
) -> None:
    site.give(sshKey=server.key, knownHosts=server.known)
    url = f"{server.url}-cut"
    client = ResticClient(url, site.secret)
    client.ensure()
    read, write = os.pipe()
    os.write(write, os.urandom(40000))
    failed: list[BackupFailure] = []

    def keep() -> None:
        with os.fdopen(read, "rb") as disk:
            try:
                client.keep(disk, "root.img", ["kvedge"], "kvedge-default")
            except BackupFailure as error:
                failed.append(error)

    worker = threading.Thread(target=keep)
    worker.start()
    try:
        session = wait_until(lambda: _children_named("ssh", _children_named("restic", [os.getpid()])), "ssh runs", 30)
        os.kill(session[0], signal.SIGKILL)
    finally:
        os.close(write)
        worker.join(100)
    assert failed, "it would be called kept"
    with pytest.raises(BackupFailure, match="no backup"):
        read_record(site.job(url), ResticClient(url, site.secret))
    site.keep(url)
    assert site.bring_back(url) == site.disk


def test_a_full_disk_and_one_that_is_read_only_say_so_and_can_be_read(site: Site, tmp_path: Path) -> None:
    with mounted(tmp_path / "usb", "tmpfs", "size=16m") as place:
        repository = f"{place}/kvedge"
        site.keep(repository)
        (tmp_path / "large").mkdir()
        failure = Site(tmp_path / "large", 24 << 20).fail(repository)
        assert "make room there" in failure.message
        assert not failure.fatal
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        # What is there can be read, and read it is.
        assert site.bring_back(repository) == site.disk
        with pytest.raises(BackupFailure, match="mount it read-write"):
            ResticClient(f"{place}/another", site.secret).ensure()


def test_a_restic_that_hangs_on_a_full_disk_is_ended_and_the_room_is_told(site: Site, tmp_path: Path) -> None:
    """As restic 0.14 does now and then: it waits for itself once a pack could not be written."""
    hanging = tmp_path / "restic"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    with mounted(tmp_path / "usb", "tmpfs", "size=16m") as place, (tmp_path / "volumes/v0/disk.img").open("rb") as disk:
        client = ResticClient(str(place), site.secret, program=str(hanging))
        with pytest.raises(BackupFailure, match=r"\b1\d MiB are free in .*make room there") as caught:
            client.keep(disk, "root.img", ["kvedge"], "kvedge-default")
    assert not caught.value.fatal


def test_a_server_that_takes_a_call_and_never_answers_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restic_client, "_FIRST_SECONDS", 2.0)
    site.give(accessKeyId="a", secretKey="b")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"s3:http://127.0.0.1:{silent.getsockname()[1]}/bucket/path"
        failure = site.fail(url)
    assert "nothing has come or gone" in failure.message
    assert not failure.fatal
    assert "cannot be reached" in site.fail(url).message


def test_a_directory_of_another_program_is_left_alone(site: Site, tmp_path: Path) -> None:
    other = tmp_path / "borg"
    other.mkdir()
    (other / "config").write_text("[repository]\nversion = 1\n")
    assert "another program keeps something there" in site.fail(str(other)).message
    assert [each.name for each in other.iterdir()] == ["config"]


def test_a_worker_knows_its_own_disk_where_files_have_no_attributes(site: Site, tmp_path: Path) -> None:
    repository = str(tmp_path / "kvedge")
    site.keep(repository)
    back = site.path / "back" / "v0"
    with mounted(back, "ramfs"):
        assert site.bring_back(repository) == site.disk
        # Its last word got lost: the next one has nothing left to do.
        assert site.bring_back(repository) == site.disk
        # One that somebody puts in its place is not taken for it.
        (back / "other").write_bytes(site.disk)
        (back / "other").rename(back / "disk.img")
        with pytest.raises(BackupFailure, match=r"holds an older disk\.img"):
            site.bring_back(repository)


@contextmanager
def mounted(path: Path, kind: str, options: str = "rw") -> Iterator[Path]:
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", kind, "-o", options, "small", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def _children_named(name: str, parents: list[int]) -> list[int]:
    found = []
    for parent in parents:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                pids = [int(pid) for pid in task.read_text().split()]
                found += [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == name]
            except OSError:
                continue
    return found
