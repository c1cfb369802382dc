# Tests: kvedge/launcher/warm_launcher.py, kvedge/launcher/libvirt/log_settings.py
"""What the parent of warm launchers loads, and what of it a copy must find anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.needs import NEEDS_LIBVIRT

# In a copy: the environment and what it prints are a launcher's; `--help` stands for all that it could do.
PROGRAM = """
import os, sys
from kvedge.launcher import warm_launcher
warm_launcher.load()
before = set(sys.modules)
assert len(os.listdir("/proc/self/task")) == 1
sys.stdout.flush()
held = os.dup(0)
os.set_inheritable(held, True)
if os.fork() == 0:
    warm_launcher.launcher_command = command = lambda words: print(
        words, sorted(os.environ.items()), os.listdir("/proc/self/fd"), sys.argv, flush=True) or 7
    warm_launcher.take_words(["kvedge", "launcher", "--name", "a"], {"PATH": "/bin"})
    warm_launcher.become_launcher()
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
LOGS = """
import os, sys
from kvedge.launcher.libvirt.log_settings import catch_up, import_early
catch_up()
assert import_early()
import libvirt
os.environ["LIBVIRT_LOG_OUTPUTS"] = "1:file:" + sys.argv[1]
libvirt.open("test:///default")
assert not os.path.exists(sys.argv[1])
catch_up()
try:
    libvirt.open("nonsense:///")
except libvirt.libvirtError:
    pass
"""
FAILS = """
import os, sys
from kvedge.launcher import warm_launcher
def fail(words):
    raise ValueError("broken")
warm_launcher.launcher_command = fail
warm_launcher.take_words(["kvedge", "launcher"], {})
warm_launcher.become_launcher()
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # As the parent's: a locale is the interpreter's own choice.
    environment = {"PATH": os.environ["PATH"]}
    command = [sys.executable, "-P", "-c", program, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=Path(__file__).parents[3]
    )


@NEEDS_LIBVIRT
def test_a_copy_has_its_own_words_environment_and_descriptors_and_never_returns() -> None:
    done = run(PROGRAM)

    assert done.stderr == ""
    said, code = done.stdout.splitlines()
    # The fourth is the directory that is being listed. An interpreter without a locale chooses one, and tells so.
    assert said == (
        "['--name', 'a'] [('LC_CTYPE', 'C.UTF-8'), ('PATH', '/bin')] ['0', '1', '2', '3']"
        " ['kvedge', 'launcher', '--name', 'a']"
    )
    assert code == "7"


@NEEDS_LIBVIRT
def test_libvirt_logs_to_where_the_environment_says_once_it_is_asked_to_look_again(tmp_path: Path) -> None:
    log = tmp_path / "libvirt.log"
    done = run(LOGS, str(log))

    assert done.returncode == 0, done.stderr
    assert "libvirt version" in log.read_text()


def test_a_launcher_that_fails_does_not_go_on_as_its_parent() -> None:
    done = run(FAILS)

    assert done.returncode == 70
    assert "ValueError: broken" in done.stderr
