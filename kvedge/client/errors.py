"""What a client ends with, as types by meaning: each text tells a person what is wrong and what to do.

Raised by everything in this folder. The command line makes exit codes of them (kvedge/cli/failures.py); other callers
show the text. The server's own errors (:mod:`kvedge.kube.errors`) pass through where nothing helps beside their words.
Touches nothing.
"""

from __future__ import annotations


class ClientError(Exception):
    """What was asked for cannot be had."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class UsageError(ClientError):
    """The question itself is wrong: an unknown kubeconfig, a value that makes no sense."""


class FlagError(UsageError):
    """A flag's value makes no sense, or that of a form's field that stands for it; `why` says it without the flag."""

    def __init__(self, flag: str, why: str, text: str) -> None:
        super().__init__(text)
        self.flag = flag
        self.why = why


class NotFoundError(ClientError):
    """There is no such object or kind; the text names those that are alike."""


class TimedOutError(ClientError):
    """It is not so yet, and the caller's time is over."""


class HostError(ClientError):
    """Something about this computer must be changed first, such as a port that is in use."""


class RefusedError(ClientError):
    """The server or the guest refused, or a document is not what it should be."""


class TakenError(RefusedError):
    """Somebody else has it, and was not to lose it."""
