"""`kvedge alarms test`: each receiver of the host's file is told something, and one that is not there is told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.cli.group import run
from tests.support.smtp_sink import SmtpSink


def write(directory: Path, text: str) -> Path:
    (directory / "config.yaml").write_text(f"write-kubeconfig: {directory}/kubeconfig\n")
    receivers = directory / "alarm-receivers.yaml"
    receivers.write_text(text)
    receivers.chmod(0o600)
    return directory / "config.yaml"


def test_each_receiver_is_told_and_who_was_not_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SmtpSink() as sink:
        relay = f"relay: '127.0.0.1:{sink.port}', security: none, from: a@site, to: [b@site]"
        text = f"mail: [{{name: admins, {relay}}}]\nwebhooks: [{{name: noc, url: 'https://127.0.0.1:1/'}}]\n"
        assert run(["alarms", "test", "--config", str(write(tmp_path, text))]) == 1
    shown = capsys.readouterr()
    assert "admins: told" in shown.out
    assert "noc: 127.0.0.1:1 cannot be reached" in shown.out
    assert "1 of 2 receivers were not told" in shown.err
    [mail] = sink.deliveries
    assert "this is a trial" in str(mail.mail.get_payload(decode=True), "utf-8")


@pytest.mark.parametrize(("text", "code"), [("", 3), ("webhooks: [{name: noc}]", 5)])
def test_nobody_and_a_wrong_file_are_told(tmp_path: Path, text: str, code: int) -> None:
    assert run(["alarms", "test", "--config", str(write(tmp_path, text))]) == code
