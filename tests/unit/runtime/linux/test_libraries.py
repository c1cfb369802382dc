"""The version of the host's libvirt, without its binding."""

from __future__ import annotations

import ctypes

import pytest

from kvedge.runtime.linux.libraries import ask_libvirt_version


def test_the_library_s_own_number_is_the_binding_s() -> None:
    libvirt = pytest.importorskip("libvirt")
    assert ask_libvirt_version() == libvirt.getVersion()


def test_a_host_without_the_library_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert ask_libvirt_version() is None
