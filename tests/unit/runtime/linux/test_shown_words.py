"""Words that a process shows in place of those that it was started with."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
from kvedge.runtime.linux.shown_words import show_words

def shown():
    return [open(f"/proc/self/{name}", "rb").read().rstrip(b"\\0") for name in ("cmdline", "environ")]

first = shown()
try:
    show_words(["x" * 9999], {})
except OSError:
    assert shown() == first
os.environ.clear()
show_words(["kvedge", "lauéncher"], {"A": "1", "B": ""})
assert shown() == ["kvedge\\0lauéncher".encode(), b"A=1\\0B="], shown()
show_words([], {})
assert shown() == [b"", b""]
show_words(["child"], {"C": "2"})
os.environ["D"] = "3"
if os.fork() == 0:
    os._exit(0 if shown() == [b"child", b"C=2"] and dict(os.environ) == {"D": "3"} else 1)
assert os.wait()[1] == 0
print("well")
"""


def test_a_process_and_its_children_show_what_they_are_told_as_far_as_there_is_room() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("well\n", "")
