"""The file by which remote-viewer opens a guest's screen."""

from __future__ import annotations

from configparser import ConfigParser

import pytest

from kvedge.client.streams.spice_file import NotOneLine, render_viewer_file


def test_a_viewer_finds_the_socket_and_deletes_the_file() -> None:
    reader = ConfigParser(interpolation=None)
    reader.read_string(render_viewer_file("/run/user/7/kvedge-spice-x/screen", "default/web"))
    assert dict(reader["virt-viewer"]) == {
        "type": "spice",
        "unix-path": "/run/user/7/kvedge-spice-x/screen",
        "title": "default/web",
        "delete-this-file": "1",
        "enable-usb-autoshare": "0",
    }


@pytest.mark.parametrize("odd", ["a\nproxy=http://evil.example", "a\rb", "a\0b"], ids=["a line", "a return", "a NUL"])
def test_a_value_cannot_bring_a_key_of_its_own(odd: str) -> None:
    for place, title in (("/run/screen", odd), (odd, "web")):
        with pytest.raises(NotOneLine):
            render_viewer_file(place, title)
