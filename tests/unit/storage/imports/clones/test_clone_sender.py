"""A disk from one worker to the other, over the real server: for whom it is, and what the sender is told."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.resources.disks.uploads import UPLOAD_CLIENT_NAME, clone_client_name, upload_server_name
from kvedge.resources.types.import_job import CloneSource, CloneTarget, ImportJob, ImportOutcome
from kvedge.runtime.tls.authority_plan import Authorities
from kvedge.runtime.tls.certificates import CA_LIFE, CertificateAuthority, LeafRequest
from kvedge.storage.imports.clones import clone_sender
from kvedge.storage.imports.clones.clone_stream import CloneSink
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from kvedge.storage.imports.sinks.import_target import FileTarget, open_target
from kvedge.storage.imports.uploads.upload_run import UploadRun
from kvedge.storage.imports.uploads.upload_server import UploadServer, upload_tls
from kvedge.storage.imports.uploads.upload_worker import UploadSinks

MIB = 1 << 20
UID = "6d0e3a3c-0001"


class Receiver:
    """The worker of the target's claim."""

    def __init__(self, directory: Path, authority: Authorities, size: int = 16 * MIB) -> None:
        self.claim = directory / "claim"
        self.claim.mkdir()
        name = upload_server_name(UID)
        certificates(directory / "server", authority, LeafRequest(name, hosts=[name], client=False, life=CA_LIFE))
        job = ImportJob(name="copy", uid=UID, size=size, clone=CloneSource(remote=True))
        target = open_target(job, self.claim, directory / "none")
        assert isinstance(target, FileTarget)
        self.target = target
        self.run = UploadRun(lambda: CloneSink(target, ImportProgress()))
        refusal_of = UploadSinks(job, target).make_refusal
        tls = upload_tls(directory / "server")
        self.server = UploadServer(self.run, tls, refusal_of, "127.0.0.1", 0, clone_client_name(UID))
        self.server.start()

    def stop(self) -> None:
        self.server.stop()
        self.run.close()
        self.target.close()


def certificates(directory: Path, authority: Authorities, request: LeafRequest) -> None:
    directory.mkdir()
    material = authority.issue(request, datetime.now(UTC))
    for name, content in (("tls.crt", material.certificate), ("tls.key", material.key), ("ca.crt", material.ca)):
        (directory / name).write_bytes(content)


@pytest.fixture(scope="module")
def authority() -> Authorities:
    return Authorities(CertificateAuthority.create("uploads", datetime.now(UTC)), None, None, ())


def send(
    directory: Path, authority: Authorities, port: int, monkeypatch: pytest.MonkeyPatch, client: str, server: str
) -> ImportOutcome:
    source = directory / "source"
    source.mkdir()
    with (source / "disk.img").open("wb") as disk:
        disk.write(b"\x01" * 70_000)
        disk.seek(9 * MIB)
        disk.write(b"\x02" * 3)
        disk.truncate(12 * MIB)
    certificates(directory / "sender", authority, LeafRequest(client, server=False))
    job = ImportJob(name="s", clone=CloneSource(), send=CloneTarget(address="127.0.0.1", server_name=server))
    places = ImportPlaces(source_directory=source, upload_certificates=directory / "sender")
    send_disk = clone_sender.send_disk
    monkeypatch.setattr(
        "kvedge.storage.imports.clones.claim_clone.send_disk", lambda *given: send_disk(*given, port=port)
    )
    return run_import(job, places, ImportProgress())


def test_a_disk_comes_from_one_worker_to_the_other(
    tmp_path: Path, authority: Authorities, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver(tmp_path, authority)
    outcome = send(
        tmp_path, authority, receiver.server.port, monkeypatch, clone_client_name(UID), upload_server_name(UID)
    )
    done = receiver.run.wait(30)
    receiver.stop()
    assert (outcome.message, outcome.virtual_size) == ("Clone Complete", 12 * MIB)
    assert done is not None
    assert done.error is None
    arrived = (tmp_path / "claim/disk.img").read_bytes()
    assert arrived[: 12 * MIB] == (tmp_path / "source/disk.img").read_bytes()
    assert len(arrived) == 16 * MIB


@pytest.mark.parametrize(
    "client", [UPLOAD_CLIENT_NAME, clone_client_name("another")], ids=["the proxy", "another claim's sender"]
)
def test_nobody_else_fills_the_claim(
    tmp_path: Path, authority: Authorities, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    receiver = Receiver(tmp_path, authority)
    with pytest.raises(ImportFailure, match=r"for another client alone|does not answer"):
        send(tmp_path, authority, receiver.server.port, monkeypatch, client, upload_server_name(UID))
    receiver.stop()
    assert list(receiver.claim.iterdir()) == []


def test_a_sender_gives_its_disk_to_the_worker_of_that_claim_alone(
    tmp_path: Path, authority: Authorities, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver(tmp_path, authority)
    with pytest.raises(ImportFailure, match="does not answer"):
        send(
            tmp_path,
            authority,
            receiver.server.port,
            monkeypatch,
            clone_client_name(UID),
            upload_server_name("another"),
        )
    receiver.stop()
    assert list(receiver.claim.iterdir()) == []


def test_a_disk_that_does_not_fit_is_refused_in_words(
    tmp_path: Path, authority: Authorities, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver(tmp_path, authority, size=8 * MIB)
    with pytest.raises(ImportFailure, match="larger than the reported available storage"):
        send(tmp_path, authority, receiver.server.port, monkeypatch, clone_client_name(UID), upload_server_name(UID))
    receiver.stop()
    assert list(receiver.claim.iterdir()) == []
