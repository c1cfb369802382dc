"""What outlasts a launcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from google.protobuf import json_format

from kvedge.launcher.launcher_errors import WrongState
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.run.run_record import RunRecord
from kvedge.rpc import launcher_pb2 as m
from kvedge.runtime.milestones import Milestones

HOLD = """
import sys
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.run.run_record import RunRecord
record = RunRecord(LauncherOptions(namespace="n", name="v", uid="u", root=sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    (tmp_path / "var/run/kubevirt").mkdir(parents=True)
    return LauncherOptions(namespace="n", name="v", uid="u", root=str(tmp_path))


def test_a_guest_begins_once(options: LauncherOptions) -> None:
    record = RunRecord(options)
    assert record.begun_unix_ms == 0
    record.begin()
    assert abs(record.begun_unix_ms - time.time() * 1000) < 10_000
    with pytest.raises(WrongState):
        record.begin()


def test_a_mark_without_a_time_still_says_that_it_began(options: LauncherOptions) -> None:
    record = RunRecord(options)
    Path(options.begun_path).touch()
    assert record.begun_unix_ms > 0


def test_a_second_launcher_of_the_same_run_is_refused_until_the_first_is_gone(options: LauncherOptions) -> None:
    command = [sys.executable, "-c", HOLD, options.root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(WrongState, match="another launcher"):
            RunRecord(options)
        holder.kill()
    RunRecord(options)


def test_leases_are_remembered_and_garbage_is_none(options: LauncherOptions) -> None:
    record = RunRecord(options)
    assert record.leases() == {}
    record.keep_leases({"02:00:00:00:00:01": "10.0.0.2"})
    assert record.leases() == {"02:00:00:00:00:01": "10.0.0.2"}
    Path(options.run_directory, "leases.json").write_text("[1")
    assert record.leases() == {}


def test_the_last_word_can_be_read_as_a_domain_status(options: LauncherOptions) -> None:
    status = m.DomainStatus(
        uuid="x", state=m.DOMAIN_STATE_CRASHED, reason=m.DOMAIN_REASON_PANICKED, message='it said "no"', qemu_pid=7
    )
    RunRecord(options).keep_final(status)
    text = Path(options.final_path).read_text()
    read = json_format.Parse(text, m.DomainStatus())
    assert (read.uuid, read.state, read.reason, read.message) == (
        "x",
        m.DOMAIN_STATE_CRASHED,
        m.DOMAIN_REASON_PANICKED,
        'it said "no"',
    )
    assert json.loads(text)["state"] == "DOMAIN_STATE_CRASHED"


def test_the_last_word_tells_how_the_guest_moved(options: LauncherOptions) -> None:
    status = m.DomainStatus(
        state=m.DOMAIN_STATE_SHUTOFF,
        reason=m.DOMAIN_REASON_MIGRATED,
        outgoing=m.OutgoingMigration(migration_uid="m-2", state=m.OUTGOING_GONE, message="so", paused=True),
        incoming=m.IncomingMigration(migration_uid="m-1", state=m.INCOMING_OWNED),
    )
    RunRecord(options).keep_final(status)
    assert json_format.Parse(Path(options.final_path).read_text(), m.DomainStatus()) == status


def test_the_next_launcher_tells_how_the_guest_was_started(options: LauncherOptions) -> None:
    first = Milestones()
    first.note("serving")
    record = RunRecord(options, first)
    record.begin()
    record.keep_milestones()
    os.close(record._lock)
    own = Milestones()
    own.note("launcher-begun")
    assert RunRecord(options, own).milestones.times() == first.times()


def test_a_record_of_milestones_that_cannot_be_read_is_none(options: LauncherOptions) -> None:
    Path(options.run_directory).mkdir(parents=True)
    Path(options.begun_path).touch()
    Path(options.run_directory, "milestones.json").write_text('{"serving": "soon", "started": 5}')
    record = RunRecord(options)
    assert record.milestones.times() == {"started": 5}
    os.close(record._lock)
    Path(options.run_directory, "milestones.json").write_text("[1")
    assert RunRecord(options).milestones.times() == {}
