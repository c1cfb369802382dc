"""The files by which remote-viewer opens a guest's screen."""

from __future__ import annotations

from configparser import ConfigParser

import pytest

from kvedge.client.streams.viewer_files import NotOneLine, render_viewer_file, render_vnc_file


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


def test_a_viewer_of_vnc_finds_port_and_password() -> None:
    reader = ConfigParser(interpolation=None)
    reader.read_string(render_vnc_file("127.0.0.1", 5901, "s3cretpw", "default/web"))
    assert dict(reader["virt-viewer"]) == {
        "type": "vnc",
        "host": "127.0.0.1",
        "port": "5901",
        "password": "s3cretpw",
        "title": "default/web",
        "delete-this-file": "1",
    }
    with pytest.raises(NotOneLine):
        render_vnc_file("127.0.0.1", 5901, "s3cretpw", "a\nb")


@pytest.mark.parametrize("odd", ["a\nproxy=http://evil.example", "a\rb", "a\0b"], ids=["a line", "a return", "a NUL"])
def test_a_value_cannot_bring_a_key_of_its_own(odd: str) -> None:
    for place, title in (("/run/screen", odd), (odd, "web")):
        with pytest.raises(NotOneLine):
            render_viewer_file(place, title)
