"""A role's process ends after SIGTERM, whatever hangs: real processes with services that hang in each way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from kvedge.runtime import last_exit
from kvedge.runtime.last_exit import LastExit

# How long the end waits for the last words: where they hang, no test has to wait as long as users may.
_TELL_SECONDS = "5.0"
_SHORT = "1.5"
_PROGRAM = """
import logging, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from kvedge.runtime import last_exit
from kvedge.runtime.services import ServiceRunner
logging.basicConfig(format="%(message)s %(facts)s")
logging.getLogger().manager.disable = 0
how = sys.argv[1]
last_exit._TELL_SECONDS = float(sys.argv[2])
for_ever, held = threading.Event(), threading.Event()

def hold():
    logging.getLogger().handlers[0].acquire()
    held.set()
    for_ever.wait()

class Hanging:
    name = "hanging"
    def start(self):
        if how == "start":
            print("serving", flush=True)
            for_ever.wait()
        if how == "lock":
            threading.Thread(target=hold, daemon=True).start()
            held.wait()
        if how == "pool":
            ThreadPoolExecutor(1, thread_name_prefix="image-pull").submit(for_ever.wait)
    def stop(self):
        if how in ("stop", "lock"):
            for_ever.wait()
    def failure(self):
        return None

class Last:
    name = "last"
    def start(self):
        print("serving", flush=True)
    def stop(self): pass
    def failure(self): return None

# One that does end has the time to, however busy the machine is.
ServiceRunner([Hanging(), Last()], exit_seconds=30.0 if how == "nothing" else 1.0).run()
"""


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("nothing", 0, ""),
        ("start", 1, "did not end in time"),
        ("stop", 1, "'stopping': 'hanging'"),
        ("pool", 1, "image-pull"),
        # The log's words are lost then.
        ("lock", 1, "in hold"),
    ],
)
def test_a_process_that_is_asked_to_stop_ends_and_says_what_hung(how: str, code: int, said: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, how, _SHORT if how == "lock" else _TELL_SECONDS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        process.send_signal(signal.SIGTERM)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code, errors
    assert said in errors
    # Where every thread was.
    assert ("Thread 0x" in errors) == bool(code)


def test_a_process_ends_although_its_standard_error_takes_nothing_any_more() -> None:
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x")
        # The file's state, which the child shares.
        os.set_blocking(writing, True)
        with subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "stop", _SHORT], stdout=subprocess.PIPE, stderr=writing, text=True
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "serving\n"
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 1
            finally:
                process.kill()
    finally:
        os.close(reading)
        os.close(writing)


def test_a_process_ends_although_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(last_exit, "passing_thread", refuse)
    stop, ended = threading.Event(), threading.Event()
    exit_ = LastExit(stop, 0.0, ended.set)
    # The error of a thread that is about to end with its process is nobody's.
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    exit_.start()
    stop.set()
    assert ended.wait(60)
    exit_.release()
