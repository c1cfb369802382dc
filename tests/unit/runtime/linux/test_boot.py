"""The id of this boot, by which records of processes and links are known to be of it."""

from __future__ import annotations

import subprocess
import uuid

from kvedge.runtime.linux.boot import BOOT_ID, read_boot_id


def test_the_id_is_a_uuid_that_every_process_of_this_boot_reads_alike() -> None:
    other = subprocess.run(["cat", BOOT_ID], capture_output=True, text=True, check=True).stdout
    assert other == f"{uuid.UUID(read_boot_id())}\n"
