"""Old backups go, and nobody else's: by the host's restic, with files of others in the same repository."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvedge.resources.types.protection.backup_job import PASSWORD_KEY, BackupJob, PruneTarget
from kvedge.resources.types.protection.backup_tasks import KeepRules
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.backups.upkeep_errand import prune_backups, read_catalog, verify_part
from tests.support.quick_repository import lay_repository

pytestmark = pytest.mark.skipif(shutil.which("restic") is None, reason="needs restic (apt: restic)")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> ResticClient:
    """Three backups of a VM, one of another of its name, and a file of somebody else."""
    place = tmp_path_factory.mktemp("repository")
    (place / PASSWORD_KEY).write_text("word")
    lay_repository(place / "kvedge", "word")
    made = ResticClient(str(place / "kvedge"), place)
    made.ensure()
    keep(made, ["kvedge", "vm=web", "id=1", "uid=u", "volume=root"])
    for uid, id_ in (("u", "1"), ("u", "2"), ("other", "4")):
        keep(made, ["kvedge", "vm=web", f"id={id_}", f"uid={uid}", "record", "size=5"])
    keep(made, ["kvedge", "vm=web", "id=3", "uid=u", "volume=root"])
    keep(made, ["kvedge", "vm=web", "uid=u", "id=9", "record"], host="laptop")
    return made


def keep(client: ResticClient, tags: list[str], host: str = "kvedge-default") -> None:
    handle = os.memfd_create("disk")
    with open(handle, "r+b") as disk:
        disk.write(os.urandom(64))
        disk.seek(0)
        client.keep(disk, "file", tags, host)


def job(**changed: object) -> BackupJob:
    targets = [PruneTarget(vm="web", uid="u")]
    fields = {"mode": "prune", "repository": "", "namespace": "default", "targets": targets, **changed}
    return BackupJob(**fields)  # type: ignore[arg-type] # fields of it


def test_old_backups_of_exactly_this_vm_go(client: ResticClient) -> None:
    before = {each.number for each in client.list(["kvedge"])}
    now = datetime.now(UTC)
    tried = prune_backups(job(keep=KeepRules(last=1), dry_run=True), client, now)
    assert (tried.removed, tried.removed_ids, tried.kept) == (1, ["1"], 1)
    assert {each.number for each in client.list(["kvedge"])} == before

    done = prune_backups(job(keep=KeepRules(last=1)), client, now)
    assert (done.removed, done.removed_ids, done.kept) == (1, ["1"], 1)
    assert done.message == "1 backups removed"
    left = client.list(["kvedge"])
    assert len(before) - len(left) == 2
    assert {tag for each in left for tag in each.tags if tag.startswith("id=")} == {"id=2", "id=3", "id=4", "id=9"}
    assert any(each.host == "laptop" for each in left)

    # A day later the try without a record is abandoned.
    later = prune_backups(job(keep=KeepRules(last=1)), client, now + timedelta(days=2))
    assert (later.removed_ids, later.message) == (["3"], "0 backups removed, and 1 abandoned tries")
    assert verify_part(BackupJob(mode="verify", repository="", part=1, parts=1), client).message.endswith("is whole")


def test_the_last_one_does_not_go_by_its_id(client: ResticClient) -> None:
    with pytest.raises(BackupFailure, match="backup 4 is the last complete one") as caught:
        prune_backups(job(targets=[PruneTarget(vm="web", uid="other")], backup_ids=["4"]), client, datetime.now(UTC))
    assert caught.value.fatal
    with pytest.raises(BackupFailure, match="backup 4 is none of these VMs'"):
        prune_backups(job(backup_ids=["4"]), client, datetime.now(UTC))


def test_a_vm_without_a_uid_and_a_number_that_is_none_are_refused(client: ResticClient) -> None:
    before = len(client.list(["kvedge"]))
    with pytest.raises(BackupFailure, match="without a UID"):
        prune_backups(job(targets=[PruneTarget(vm="web", uid="")]), client, datetime.now(UTC))
    for number in ("latest", "--keep-last=1", "ab12", ""):
        with pytest.raises(BackupFailure, match="no number of a file"):
            client.forget([client.list(["kvedge"])[0].number, number])
    assert len(client.list(["kvedge"])) == before


def test_the_list_has_all_that_kvedge_has_kept(client: ResticClient) -> None:
    found = read_catalog(client).backups
    assert {"2", "4"} <= {each.id for each in found if each.complete and each.size == 5}
    assert "9" not in {each.id for each in found}


def test_damage_is_told_as_damage(client: ResticClient, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    where = Path(client._where)  # the copy of a repository is one
    shutil.copytree(where, copy / "kvedge")
    shutil.copy(where.parent / PASSWORD_KEY, copy / PASSWORD_KEY)
    pack = max(
        (each for each in (copy / "kvedge" / "data").rglob("*") if each.is_file()), key=lambda e: e.stat().st_size
    )
    pack.chmod(0o600)
    content = bytearray(pack.read_bytes())
    content[10] ^= 0xFF
    pack.write_bytes(bytes(content))
    with pytest.raises(BackupFailure) as caught:
        verify_part(BackupJob(mode="verify", repository="", part=1, parts=1), ResticClient(str(copy / "kvedge"), copy))
    assert caught.value.damaged
