"""What a process returns to the host once it serves."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import hashlib, json, sqlite3, ssl
from kvedge.runtime.process_memory import give_back, unmap_code

def resident():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Rss:"))

before = resident()
unmap_code()
after = resident()
give_back()
# Everything still works: what was let go of comes back.
assert json.loads(json.dumps({"a": [1, 2.5]})) == {"a": [1, 2.5]}
assert hashlib.sha256(b"x").hexdigest().startswith("2d711642")
assert sqlite3.connect(":memory:").execute("select 6 * 7").fetchone() == (42,)
ssl.create_default_context()
print(before - after)
"""


def test_code_is_let_go_of_and_comes_back_when_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1024
