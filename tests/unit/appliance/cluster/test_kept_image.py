"""The launcher's image is brought into a node's containerd, pinned, and brought back when it went."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kvedge.appliance.cluster import kept_image
from kvedge.appliance.cluster.image_loader import NotLoadedError, load_image
from kvedge.appliance.cluster.kept_image import ImageSource, KeptImage, image_source
from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.runtime.settings import Settings
from tests.support.waiting import wait_until

# Knows an image from its import and label on, as ctr does; what it was asked is in `calls`.
TOOL = """#!/bin/sh
cd {directory}
echo "$@" >>calls
[ ! -e broken ] || {{ echo "no containerd" >&2; exit 1; }}
case "$2" in
  import) touch image ;;
  label) echo "$4" >image ;;
  list) if grep -qs pinned image; then echo {image}; fi ;;
esac
"""


class Runtime:
    """A node's containerd, as far as its tool shows it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tool = directory / "ctr"
        self.tool.write_text(TOOL.format(directory=directory, image=LAUNCHER_IMAGE))
        self.tool.chmod(0o755)
        self.source = ImageSource(directory / "kvedge-launcher.tar", (str(self.tool), "images", "import"))

    @property
    def calls(self) -> list[str]:
        path = self.directory / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def count(self, verb: str) -> int:
        """How often the tool was asked for that."""
        return [call.split()[1] for call in self.calls].count(verb)


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path)


def test_an_image_is_loaded_by_the_distributions_tool_and_pinned(runtime: Runtime) -> None:
    load_image(runtime.source.load, runtime.source.archive)
    assert runtime.calls == [
        f"images import {runtime.source.archive}",
        f"images label {LAUNCHER_IMAGE} io.cri-containerd.pinned=pinned",
    ]


def test_a_failure_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(NotLoadedError, match="`no-such-tool images import"):
        load_image(["no-such-tool", "images", "import"], tmp_path / "a.tar")
    with pytest.raises(NotLoadedError, match="No such file"):
        load_image(["ls", "--"], tmp_path / "a.tar")


def test_an_image_that_went_is_loaded_again_and_one_that_is_there_left_alone(runtime: Runtime) -> None:
    runtime.source.archive.touch()
    kept = KeptImage(lambda: runtime.source, 0.02)
    kept.start()
    wait_until(lambda: runtime.count("list") > 2, "it is looked for again and again")
    assert runtime.count("import") == 1
    (runtime.directory / "image").unlink()
    wait_until(lambda: runtime.count("label") == 2, "it is loaded a second time")
    assert kept.failure() is None
    kept.stop()


def test_a_containerd_that_is_away_is_told_once(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    runtime.source.archive.touch()
    (runtime.directory / "broken").touch()
    kept = KeptImage(lambda: runtime.source, 0.02)
    with caplog.at_level(logging.INFO):
        kept.start()
        wait_until(lambda: len(runtime.calls) > 3, "it is tried again and again")
        (runtime.directory / "broken").unlink()
        wait_until((runtime.directory / "image").exists, "the image is loaded")
        kept.stop()
        wait_until(lambda: "loaded" in caplog.text, "that is told")
    # Threads of other tests may still be saying something.
    told = [record.levelname for record in caplog.records if record.name == kept_image.__name__]
    assert told == ["WARNING", "INFO"]


def test_without_an_archive_or_a_tool_nothing_is_run(runtime: Runtime) -> None:
    looked: list[ImageSource] = []

    def find() -> ImageSource:
        looked.append(runtime.source if len(looked) % 2 else ImageSource(runtime.tool, ()))
        return looked[-1]

    kept = KeptImage(find, 0.01)
    kept.start()
    wait_until(lambda: len(looked) > 4, "it is looked for again and again")
    kept.stop()
    assert runtime.calls == []


def test_the_archive_is_where_the_operator_has_images_loaded_from() -> None:
    settings = Settings(images_dir="/srv/images", containerd_socket="/c.sock")
    found = image_source(settings)
    assert found.archive == Path("/srv/images/kvedge-launcher.tar")
    assert found.load[:3] == ("ctr", "--address", "/c.sock")
