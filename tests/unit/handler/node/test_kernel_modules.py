"""What is told of device nodes that guests profit from and that this host does not have."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kvedge.handler.node import kernel_modules


@pytest.mark.parametrize(
    ("there", "level"),
    [(["tun"], "INFO"), ([], "WARNING"), (["tun", "vhost-net"], "")],
    ids=["no vhost-net: guests are slower", "no tun: guests have no network", "all there"],
)
def test_what_is_missing_is_told_once_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    there: list[str],
    level: str,
) -> None:
    tun, vhost = str(tmp_path / "tun"), str(tmp_path / "vhost-net")
    for name in there:
        (tmp_path / name).touch()
    monkeypatch.setattr(kernel_modules, "_TUN", tun)
    monkeypatch.setattr(kernel_modules, "MODULES", {tun: "no_such_module_1", vhost: "no_such_module_2"})
    monkeypatch.setattr("shutil.which", lambda name: None)
    with caplog.at_level(logging.INFO):
        # A role that waits for its cluster is started again and again.
        for _ in range(3):
            missing = kernel_modules.load_missing_modules()
    assert missing == [device for device in (tun, vhost) if not Path(device).exists()]
    assert [record.levelname for record in caplog.records] == ([level] if level else [])
