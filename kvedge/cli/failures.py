"""Turns the errors of the layers below into words for the user and an exit code: no traceback ever reaches one.

Called by the group when a verb raised. Imports the layers only then.
"""

from __future__ import annotations

import os
import traceback
from typing import Final

from kvedge.cli.exits import Exit, Refused

# More than a screen has.
_MOST_CAUSES: Final = 50
_LONGEST: Final = 4000


def explain(error: Exception) -> Refused:
    """What to print and to exit with."""
    if isinstance(error, ImportError):
        # First, as the imports below may be the very ones that fail.
        return _explain_not_loaded(error)
    from kvedge.appliance.cluster.errors import ClusterError
    from kvedge.client.errors import ClientError

    if isinstance(error, ClientError | ClusterError):
        return Refused(error.text, _code(error))
    from msgspec import DecodeError

    from kvedge.kube.errors import KubeError
    from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError
    from kvedge.runtime.settings import SettingsError

    if isinstance(error, KubeError):
        return _explain_refusal(error)
    if isinstance(error, KubeconfigError | SettingsError):
        return Refused(str(error), Exit.USAGE)
    if isinstance(error, DecodeError):
        return Refused(f"the server's answer cannot be read: is it a Kubernetes API server? ({error})")
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return Refused(str(error), Exit(code))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Refused(f"{where}{error.strerror or error}", Exit.FAILED)
    if os.environ.get("KVEDGE_TRACEBACK"):
        traceback.print_exception(error)
    # A document without what the API has in it fails where it is read, and so does a fault of ours.
    return Refused(
        f"unexpected answer of the server, or a fault of kvedge ({type(error).__name__}: {error}); "
        "KVEDGE_TRACEBACK=1 shows where"
    )


def _code(error: Exception) -> Exit:
    """What an error of the client, or of a node's cluster, is to a shell."""
    from kvedge.appliance.cluster import errors as cluster
    from kvedge.client import errors as client

    codes: dict[Exit, tuple[type[Exception], ...]] = {
        Exit.USAGE: (client.UsageError, cluster.NoKubeconfigError),
        Exit.NOT_FOUND: (client.NotFoundError, cluster.UnknownNodeError),
        Exit.TIMED_OUT: (client.TimedOutError,),
        Exit.HOST: (client.HostError, cluster.UnfitError),
    }
    return next((code for code, kinds in codes.items() if isinstance(error, kinds)), Exit.FAILED)


def _explain_not_loaded(error: ImportError) -> Refused:
    """A part of the program, or a library of the host that it is linked with."""
    from kvedge.runtime.program import is_frozen

    if os.environ.get("KVEDGE_TRACEBACK"):
        traceback.print_exception(error)
    if error.path and os.path.exists(error.path) and os.statvfs(error.path).f_flag & os.ST_NOEXEC:
        # Python's own files can be read from there, libraries cannot be run.
        remedy = "move the program to another place, such as /opt, or mount that file system without noexec"
        return Refused(f"{error.path} is on a file system that is mounted noexec; {remedy}", Exit.HOST)
    # The dynamic linker has nothing but words.
    name, _, rest = str(error).partition(": ")
    if ".so" in name and "No such file" in rest:
        return Refused(f"this host lacks the library {name}: install the package that has it", Exit.HOST)
    remedy = "run `kvedge --verify`, which repairs it" if is_frozen() else "install kvedge's requirements"
    return Refused(f"a part of the program cannot be loaded ({error}); {remedy}", Exit.HOST)


def _explain_refusal(error: Exception) -> Refused:
    from kvedge.kube.errors import KubeError, NotFound, Unavailable

    assert isinstance(error, KubeError)
    if isinstance(error, NotFound):
        return Refused(error.message, Exit.NOT_FOUND)
    if isinstance(error, Unavailable):
        hint = "is `kvedge standalone` running?" if error.status == 0 else "try again"
        return Refused(f"{error.message}: {hint}", Exit.FAILED)
    causes = [_line(cause.field, cause.message) for cause in error.causes if cause.message]
    if len(causes) < 2:
        return Refused(_with_field(_short(error.message), error.causes[0].field if causes else ""))
    # The message repeats all causes in one line; a list is easier to read.
    head = error.message.split(" is invalid: ")[0] + " is invalid:" if " is invalid: " in error.message else "refused:"
    more = f"\n  * and {len(causes) - _MOST_CAUSES} more" if len(causes) > _MOST_CAUSES else ""
    return Refused(_short(head) + "".join(causes[:_MOST_CAUSES]) + more)


def _line(field: str, message: str) -> str:
    return _short(f"\n  * {field}: {message}" if field else f"\n  * {message}")


def _short(text: str) -> str:
    """A server may repeat what it was sent, which nobody reads on a screen."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _with_field(message: str, field: str) -> str:
    """A webhook with one cause says it without its place."""
    if not field or field in message:
        return message
    webhook, denied, rest = message.rpartition(" denied the request: ")
    return f"{webhook}{denied}{field}: {rest}"
