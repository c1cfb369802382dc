"""The kernel's watchdog, played by a file and by what its calls answer."""

from __future__ import annotations

import fcntl
import struct
from pathlib import Path

import pytest

from kvedge.handler.fencing.watchdog_device import WatchdogDevice, WatchdogError


class Driver:
    """Answers ioctl as a driver that can at most so many seconds."""

    def __init__(self, most: int) -> None:
        self.most, self.seconds, self.calls = most, 60, list[int]()

    def answer(self, fd: int, request: int, argument: bytes) -> bytes:
        self.calls.append(request & 0xFF)
        if request & 0xFF == 6:
            wanted = struct.unpack("=i", argument)[0]
            if wanted > self.most:
                raise OSError(22, "Invalid argument")
            self.seconds = wanted
        return struct.pack("=i", self.seconds)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    (tmp_path / "watchdog0").write_text("")
    (tmp_path / "identity").write_text("iTCO_wdt\n")
    (tmp_path / "nowayout").write_text("0\n")
    return tmp_path / "watchdog0"


def test_the_timeout_is_what_the_device_says_after_it_was_asked(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(15)
    driver.seconds = 15
    monkeypatch.setattr(fcntl, "ioctl", driver.answer)
    armed = WatchdogDevice(20, device, device.parent)
    assert (armed.name, armed.seconds) == ("iTCO_wdt", 15)
    armed.feed()
    assert driver.calls == [6, 7, 5]
    armed.disarm()
    assert device.read_text() == "V"


def test_a_device_that_is_left_gets_no_magic_letter(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "ioctl", Driver(60).answer)
    WatchdogDevice(20, device, device.parent).leave()
    assert device.read_text() == ""


def test_a_device_that_cannot_be_stopped_again_is_not_used(device: Path) -> None:
    (device.parent / "nowayout").write_text("1\n")
    with pytest.raises(WatchdogError, match="load its module with nowayout=0"):
        WatchdogDevice(20, device, device.parent)


def test_a_node_without_a_device_says_what_helps(tmp_path: Path) -> None:
    with pytest.raises(WatchdogError, match="load the module softdog"):
        WatchdogDevice(20, tmp_path / "watchdog0", tmp_path)


def test_a_file_that_is_no_device_is_refused(device: Path) -> None:
    with pytest.raises(WatchdogError, match="takes no timeout"):
        WatchdogDevice(20, device, device.parent)
