"""The disk that the benches of imports import, and the web server that has it, in a process of its own."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SERVER: Final = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(sys.argv[1] + self.path, 'rb') as image:
            size = os.fstat(image.fileno()).st_size
            self.send_response(200)
            self.send_header('Content-Length', str(size))
            self.end_headers()
            self.wfile.flush()
            position = 0
            while position < size:
                position += os.sendfile(self.connection.fileno(), image.fileno(), position, 1 << 24)
    def log_message(self, *_): pass
server = http.server.HTTPServer((sys.argv[2], 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
# What a guest's disk holds: a part of it text and programs, a part packed already, and holes.
_FILLED: Final = 0.6


def make_image(image: Path, size: int, *words: str) -> None:
    """A qcow2 of a disk of so many bytes; `words` are more of `qemu-img convert`."""
    raw = image.with_name("raw")
    _make(raw, size)
    subprocess.run(["qemu-img", "convert", *words, "-f", "raw", "-O", "qcow2", raw, image], check=True)
    raw.unlink()


@contextmanager
def served(folder: Path, address: str = "127.0.0.1") -> Iterator[str]:
    """The files of a folder at an address of this machine: the URL of the folder."""
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(folder), address], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"http://{address}:{server.stdout.readline().strip()}"
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _make(path: Path, size: int) -> None:
    chance = random.Random(7)
    packed = chance.randbytes(8 << 20)
    words = Path(sys.executable).resolve().read_bytes()[: 8 << 20]
    with path.open("wb") as disk:
        disk.truncate(size)
        for start in range(0, size, 8 << 20):
            if chance.random() < _FILLED:
                disk.seek(start)
                disk.write(chance.choice((packed, words)))
