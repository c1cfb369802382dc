"""Exit codes, and the one exception that a verb raises to end with one of them.

| code | means |
|---|---|
| 0 | done |
| 1 | failed: the server or the guest refused, or cannot be asked |
| 2 | usage: an unknown verb, flag or kubeconfig, a value that makes no sense |
| 3 | not found |
| 4 | timed out |
| 5 | a precondition of this host |
| 130 | Ctrl-C |

`ssh` and `scp` end as the programs do that they run. Used by all verbs. Touches nothing.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What `kvedge` exits with; scripts rely on it."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    TIMED_OUT = 4
    # Something about this host must be changed first: a missing package, a port in use, a full disk.
    HOST = 5


class Refused(Exception):
    """A verb ends here: `text` tells the user what is wrong and what to do, `code` the shell."""

    def __init__(self, text: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
