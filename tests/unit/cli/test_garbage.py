"""While a program is loaded, Python hardly looks for garbage; while a role's services run, it does as always."""

from __future__ import annotations

import json
import subprocess
import sys

# In a process of its own: to run services sets signals and a umask.
PROGRAM = """
import gc, json, os, signal, sys
usual = gc.get_threshold()
import kvedge.cli.group
from kvedge.cli.host import roles
from kvedge.cli import main

seen = {}

class Looking:
    name = "looking"
    def start(self):
        seen["running"] = gc.get_threshold() == usual
        os.kill(os.getpid(), signal.SIGTERM)
    def stop(self):
        pass
    def failure(self):
        return None

def run(arguments):
    seen["loading"] = gc.get_threshold()[0] > 10 * usual[0]
    roles._run([Looking()])
    print(json.dumps(seen))
    return 0

kvedge.cli.group.run = run
sys.argv = ["kvedge", "standalone"]
main.main()
"""


def test_loading_collects_seldom_and_a_role_as_usual() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"loading": True, "running": True}
