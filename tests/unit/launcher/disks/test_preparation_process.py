"""The process that makes a VMI's files: what goes in, what comes out, and what when it dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvedge.launcher.disks.preparation_process import _error_of, _message_of
from kvedge.launcher.launcher_errors import (
    BadRequest,
    DeviceUnusable,
    DiskFull,
    HookFailed,
    LauncherError,
    LibvirtFailed,
    Unanswered,
    WrongState,
)

# In a process of its own: a fork of the test runner, which has threads, would be something else.
PROGRAM = """
import json, os, signal, sys
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.disks.preparation_process import PreparationProcess
process = PreparationProcess(LauncherOptions(namespace="n", name="v", uid=sys.argv[1], root=sys.argv[2]))
from kvedge.rpc.launcher_pb2 import NodeOptions, SyncRequest
def ask(vmi):
    request = SyncRequest(vmi_json=json.dumps(vmi).encode(), options=NodeOptions(emulation=True))
    try:
        prepared = process.prepare(request, 9_000_000)
        return {"xml": prepared.xml, "paused": prepared.paused}
    except LauncherError as error:
        return {"error": type(error).__name__, "text": str(error)}
pid = process._pid
answers = []
for step in json.loads(sys.argv[3]):
    if step == "kill":
        os.kill(pid, signal.SIGKILL)
    else:
        answers.append(ask(step))
process.stop()
try:
    os.kill(pid, 0)
    gone = False
except ProcessLookupError:
    gone = True
print(json.dumps({"answers": answers, "gone": gone, "loaded": "msgspec" in sys.modules}))
"""
UID = "11111111-1111-4111-8111-111111111111"


def run(directory: Path, *steps: Any) -> dict[str, Any]:
    """What the program above prints for these steps."""
    command = [sys.executable, "-c", PROGRAM, UID, str(directory), json.dumps(steps)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return dict(json.loads(done.stdout))


def vmi(uid: str = UID, **spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "n", "name": "v", "uid": uid}
    return {"metadata": metadata, "spec": {"domain": {"memory": {"guest": "64Mi"}, "devices": {}}, **spec}}


def test_a_vmi_becomes_a_document_and_the_process_ends(tmp_path: Path) -> None:
    told = run(tmp_path, vmi(startStrategy="Paused"))
    assert told["answers"][0]["paused"] is True
    assert f"<uuid>{UID}</uuid>" in told["answers"][0]["xml"]
    assert told["gone"]
    assert not told["loaded"]


def test_a_vmi_that_cannot_be_prepared_can_be_followed_by_one_that_can(tmp_path: Path) -> None:
    bad = vmi(volumes=[{"name": "x", "sysprep": {}}])
    bad["spec"]["domain"]["devices"]["disks"] = [{"name": "x", "disk": {}}]
    wrong, another, good = run(tmp_path, bad, vmi(uid="other"), vmi())["answers"]
    assert wrong["error"] == another["error"] == "BadRequest"
    assert "spec.volumes[0]" in wrong["text"]
    assert "this is the launcher of" in another["text"]
    assert "xml" in good


def test_a_process_that_was_killed_is_said_and_the_next_try_goes_without_it(tmp_path: Path) -> None:
    told = run(tmp_path, "kill", vmi(), vmi())
    first, second = told["answers"]
    assert first["error"] == "Unanswered"
    assert "xml" in second
    assert told["loaded"]


ERRORS = [
    BadRequest("spec.x", "is wrong", "do it right"),
    DeviceUnusable("spec.x", "is not there", "put it there"),
    DiskFull("/var/x", "no space"),
    HookFailed("hook-sidecar-0", "no board"),
    Unanswered("too slow"),
    WrongState("not now"),
    LibvirtFailed("making it", 7, 3, "no"),
]


@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ for error in ERRORS])
def test_errors_come_out_as_they_went_in(error: LauncherError) -> None:
    back = _error_of(json.loads(json.dumps(_message_of(error))))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_an_error_of_the_operating_system_is_told_with_its_words() -> None:
    back = _error_of(_message_of(OSError(13, os.strerror(13), "/x")))
    assert isinstance(back, LibvirtFailed)
    assert "Permission denied: '/x'" in str(back)
