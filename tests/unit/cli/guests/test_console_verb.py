"""`kvedge console --log`: what it asks for and what it prints."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from click.testing import CliRunner

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.guests.console_verb import console

LOG = b"\x1b[31mboot\x1b[0m\r\nlogin: \xff"
BASE = "/apis/subresources.kubevirt.io/v1/namespaces/lab/virtualmachineinstances"


class Server(BaseHTTPRequestHandler):
    """Answers as the aggregated API does; remembers paths."""

    asked: list[str] = []  # noqa: RUF012  # one list for all requests of a test, made anew by the fixture

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(LOG)))
        self.end_headers()
        self.wfile.write(LOG)

    def log_message(self, *args: object) -> None:
        """Nothing is printed into the tests' output."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    Server.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "a",
            "clusters": [{"name": "a", "cluster": cluster}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "lab"}}],
            "users": [{"name": "a", "user": {"token": "t"}}],
        }
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(document))
        yield path
        server.shutdown()
        thread.join()


def test_a_pipe_gets_each_byte_as_it_was_written(kubeconfig: Path) -> None:
    done = CliRunner().invoke(console, ["web", "--log", "--kubeconfig", str(kubeconfig)])
    assert (done.exit_code, done.stdout_bytes) == (0, LOG)
    assert Server.asked == [f"{BASE}/web/console/log"]


def test_a_part_can_be_asked_for(kubeconfig: Path) -> None:
    arguments = ["web", "--log", "--previous", "--tail", "7", "--kubeconfig", str(kubeconfig)]
    assert CliRunner().invoke(console, arguments).exit_code == 0
    assert Server.asked == [f"{BASE}/web/console/log?previous=true&tailBytes=7"]


@pytest.mark.parametrize("options", [["--tail", "7"], ["--previous"]])
def test_parts_of_a_log_go_with_the_log(options: list[str]) -> None:
    refused = CliRunner().invoke(console, ["web", *options]).exception
    assert isinstance(refused, Refused)
    assert refused.code == Exit.USAGE
