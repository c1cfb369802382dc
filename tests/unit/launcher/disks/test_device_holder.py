"""What the monitor is asked for devices, by processes and signals for real; with files, as devices need root."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tests.unit.launcher.test_monitor import Monitored

_BODY = """
    import json
    from kvedge.launcher.disks.device_holder import read_held_devices, hold_device, release_device
    directory = options.public_directory
    answers = [hold_device(directory, str(state / name)) for name in ("device", "device", "missing", "link")]
    def held():
        folder = f"/proc/{os.getppid()}/fd"
        links = [os.path.realpath(f"{folder}/{number}") for number in os.listdir(folder)]
        return links.count(str(state / "device"))
    holding, told = held(), read_held_devices(directory)
    released = release_device(directory, str(state / "device"))
    left = held(), read_held_devices(directory)
    (state / "said.new").write_text(json.dumps([answers, holding, told, released, *left]))
    os.rename(state / "said.new", state / "said")
    return 0
"""


@pytest.fixture
def monitored(tmp_path: Path) -> Iterator[Monitored]:
    (tmp_path / "device").touch()
    (tmp_path / "link").symlink_to("device")
    made = Monitored(tmp_path, _BODY)
    yield made
    made.process.kill()
    made.process.wait()


def test_the_monitor_holds_a_device_once_and_lets_it_go_when_asked(monitored: Monitored) -> None:
    wait_until((monitored.directory / "said").exists, "the launcher has asked")
    text = (monitored.directory / "said").read_text()
    device = f"{monitored.directory}/device"
    assert json.loads(text) == [[0, 0, errno.ENOENT, errno.ELOOP], 1, [device], 0, 0, []]
    assert monitored.process.wait(20) == 0
