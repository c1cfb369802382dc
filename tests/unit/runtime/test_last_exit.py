"""A role's process ends after SIGTERM, whatever hangs: real processes with services that hang in each way."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import logging, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from kvedge.runtime.services import ServiceRunner
logging.basicConfig(format="%(message)s %(facts)s")
logging.getLogger().manager.disable = 0
how = sys.argv[1]
for_ever = threading.Event()

class Hanging:
    name = "hanging"
    def start(self):
        if how == "start":
            print("serving", flush=True)
            for_ever.wait()
        if how == "pool":
            ThreadPoolExecutor(1, thread_name_prefix="image-pull").submit(for_ever.wait)
    def stop(self):
        if how == "stop":
            for_ever.wait()
    def failure(self):
        return None

class Last:
    name = "last"
    def start(self):
        print("serving", flush=True)
    def stop(self): pass
    def failure(self): return None

ServiceRunner([Hanging(), Last()], exit_seconds=1.0).run()
"""


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("nothing", 0, ""),
        ("start", 1, "did not end in time"),
        ("stop", 1, "'stopping': 'hanging'"),
        ("pool", 1, "image-pull"),
    ],
)
def test_a_process_that_is_asked_to_stop_ends_and_says_what_hung(how: str, code: int, said: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert said in errors
    # Where every thread was.
    assert ("Thread 0x" in errors) == bool(code)
