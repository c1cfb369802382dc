"""The launcher's image in a containerd of its own: loaded, pinned, and back after it was removed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.appliance.cluster.image_loader import is_kept, load_image, remove_image
from kvedge.appliance.cluster.kept_image import ImageSource, KeptImage
from kvedge.appliance.host.distributions import socket_loader
from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.storage.images.launcher_image import write_launcher_image
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(shutil.which("containerd") is None, reason="install containerd"),
    pytest.mark.skipif(os.geteuid() != 0, reason="run as root"),
]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ImageSource]:
    # On whatever file system the tests have.
    monkeypatch.setenv("CONTAINERD_SNAPSHOTTER", "native")
    socket, config = tmp_path / "c.sock", tmp_path / "config.toml"
    config.write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
    places = ["--root", str(tmp_path / "root"), "--state", str(tmp_path / "state"), "--address", str(socket)]
    write_launcher_image(tmp_path / "kvedge-launcher.tar")
    with (tmp_path / "log").open("wb") as log:
        containerd = subprocess.Popen(["containerd", "--config", str(config), *places], stdout=log, stderr=log)
        try:
            wait_until(
                lambda: (
                    subprocess.run(["ctr", "--address", str(socket), "version"], capture_output=True).returncode == 0
                ),
                "containerd answers",
            )
            yield ImageSource(tmp_path / "kvedge-launcher.tar", socket_loader(str(socket)))
        finally:
            containerd.terminate()
            containerd.wait(20)


def test_a_loaded_image_is_pinned_and_a_second_time_changes_nothing(source: ImageSource) -> None:
    assert not is_kept(source.load)
    for _ in range(2):
        load_image(source.load, source.archive)
        assert is_kept(source.load)
    # As some versions of k3s do when they start.
    subprocess.run([*source.load[:-1], "label", LAUNCHER_IMAGE, "io.cri-containerd.pinned="], check=True)
    assert not is_kept(source.load)
    load_image(source.load, source.archive)
    assert is_kept(source.load)


def test_an_image_that_was_removed_comes_back(source: ImageSource) -> None:
    kept = KeptImage(lambda: source, 0.1)
    kept.start()
    wait_until(lambda: is_kept(source.load), "it is there")
    remove_image(source.load)
    wait_until(lambda: is_kept(source.load), "it is there again")
    kept.stop()
