"""What the roles agree on of dumps: names of files, and how large they are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.disks.memory_dumps import (
    claim_bytes,
    dump_bytes,
    dump_file_name,
    is_dump_file,
    is_partial,
    partial_name,
)
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance

MEBIBYTE = 1 << 20


def vmi(domain: dict[str, Any]) -> VirtualMachineInstance:
    return decode(VirtualMachineInstance, {"metadata": {"name": "web"}, "spec": {"domain": domain}})


@pytest.mark.parametrize(
    ("domain", "mebibytes"),
    [
        ({"memory": {"guest": "1Gi"}, "resources": {"requests": {"memory": "256Mi"}}}, 1124),
        ({"resources": {"requests": {"memory": "256Mi"}}}, 356),
        ({}, 100),
        ({"memory": {"guest": "nonsense"}}, 100),
    ],
    ids=["overcommitted", "the request", "huge pages alone", "no quantity"],
)
def test_a_dump_is_as_large_as_the_memory_that_the_guest_sees(domain: dict[str, Any], mebibytes: int) -> None:
    assert dump_bytes(vmi(domain)) == mebibytes * MEBIBYTE


def test_a_claim_has_room_for_its_file_system_too_as_virtctl_makes_it() -> None:
    claim = decode(PersistentVolumeClaim, {"spec": {"storageClassName": "fast"}})
    guest = vmi({"memory": {"guest": "924Mi"}})
    shares = {"filesystemOverhead": {"global": "0.1", "storageClass": {"fast": "0.5"}}}
    assert claim_bytes(guest, claim, decode(CdiConfig, {"status": shares})) == 1536 * MEBIBYTE
    shares = {"filesystemOverhead": {"global": "0.1"}}
    assert claim_bytes(guest, claim, decode(CdiConfig, {"status": shares})) == 1127 * MEBIBYTE
    assert claim_bytes(guest, claim, None) == 1081 * MEBIBYTE


def test_a_dump_that_is_being_written_is_no_dump_yet() -> None:
    partial = partial_name("22222222-2222-4222-8222-222222222222")
    assert is_partial(partial)
    assert not is_dump_file(partial)
    assert is_dump_file("web-dumps-20260102-030405.memory.dump")
    assert not is_partial("web-dumps-20260102-030405.memory.dump")
    assert not is_dump_file("disk.img")


def test_a_file_s_name_is_none_that_is_too_long() -> None:
    name = dump_file_name("v" * 253, "c" * 63, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert len(name) <= 255
    assert name.endswith(f"-{'c' * 63}-20260102-030405.memory.dump")
