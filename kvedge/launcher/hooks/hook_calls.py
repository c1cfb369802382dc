"""Asks the hook sidecars of a launcher, each in its turn, within one time for all of them.

Called in the preparation process before the guest starts, and by the launcher at its end. Reads the directories of
their sockets.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Callable, Sequence
from typing import Final

from kvedge.launcher.hooks.cloud_init_data import CloudInitFiles, data_of, files_of, no_cloud_of
from kvedge.launcher.hooks.domain_answer import check_domain, show_domain
from kvedge.launcher.hooks.hook_points import ON_DEFINE_DOMAIN, PRE_CLOUD_INIT_ISO, SHUTDOWN
from kvedge.launcher.hooks.hook_sidecar import HookSidecar, ask_info
from kvedge.launcher.launcher_errors import BadRequest, HookFailed, LauncherError, Unanswered
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.values.hook_names import sidecar_name
from kvedge.rpc import hooks_pb2

# All that sidecars may take of a start; the handler waits for a minute.
START_SECONDS: Final = 40.0
# Of it, until each has its socket: a start is tried again all the same.
_APPEAR_SECONDS: Final = 10.0
# All that they may take of an end: the Pod is killed soon after.
SHUTDOWN_SECONDS: Final = 5.0
_INFO_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.1
# Of a sidecar's directory, which is the sidecar's to fill.
_MOST_SOCKETS: Final = 16
_MOST_ENTRIES: Final = 256


class HookCalls:
    """The sidecars of one launcher, for one attempt at something."""

    def __init__(self, options: LauncherOptions, seconds: float) -> None:
        """`seconds` is what all calls together may take."""
        self._options = options
        self._deadline = time.monotonic() + seconds
        self._found: Sequence[HookSidecar] | None = None

    def pre_cloud_init_iso(self, files: CloudInitFiles, volume: str, vmi_json: bytes) -> CloudInitFiles:
        """The files of cloud-init's ISO, as the sidecars leave them.

        Raises:
            HookFailed: when a sidecar refuses.
            Unanswered: when one does not answer.
            BadRequest: when the data is no text.
        """
        for sidecar in self._list_subscribed(PRE_CLOUD_INIT_ISO):
            try:
                legacy, data = no_cloud_of(files), data_of(files, volume)
            except ValueError as error:
                raise BadRequest(f"spec.volumes[{volume}]", str(error), "use plain text, or another hook") from error
            request = hooks_pb2.PreCloudInitIsoParams(
                cloud_init_no_cloud_source=legacy, vmi=vmi_json, cloud_init_data=data
            )
            reply = hooks_pb2.PreCloudInitIsoResult.FromString
            answer = sidecar.call(PRE_CLOUD_INIT_ISO, request, reply, self._count_left())
            try:
                files = files_of(files, answer.cloud_init_data, answer.cloud_init_no_cloud_source)
            except ValueError as error:
                raise HookFailed(sidecar.container, f"{PRE_CLOUD_INIT_ISO} answered {error}") from error
        return files

    def on_define_domain(self, xml: str, vmi_json: bytes) -> tuple[str, list[str]]:
        """The domain's document, as the sidecars leave it, and which containers changed it.

        Raises:
            HookFailed: when a sidecar refuses, or answers no document of this domain.
            Unanswered: when one does not answer.
        """
        changed: list[str] = []
        shown = show_domain(xml)
        for sidecar in self._list_subscribed(ON_DEFINE_DOMAIN):
            request = hooks_pb2.OnDefineDomainParams(domain_xml=shown.encode(), vmi=vmi_json)
            reply = hooks_pb2.OnDefineDomainResult.FromString
            answer = sidecar.call(ON_DEFINE_DOMAIN, request, reply, self._count_left())
            try:
                made = check_domain(xml, answer.domain_xml)
            except ValueError as error:
                raise HookFailed(sidecar.container, f"{ON_DEFINE_DOMAIN} answered {error}") from error
            if made != shown:
                changed.append(sidecar.container)
            shown = made
        return (shown if changed else xml), changed

    def shutdown(self, tell: Callable[[str], None]) -> None:
        """Tell sidecars that the guest has ended; `tell` hears of those that do not take it."""
        for number in range(self._options.hook_sidecars):
            container = sidecar_name(number)
            try:
                sidecar = self._look_for(container)
                if sidecar is not None and sidecar.priority(SHUTDOWN) is not None:
                    reply = hooks_pb2.ShutdownResult.FromString
                    sidecar.call(SHUTDOWN, hooks_pb2.ShutdownParams(), reply, self._count_left())
            except (LauncherError, OSError) as error:
                tell(str(error))

    def _list_subscribed(self, point: str) -> list[HookSidecar]:
        if self._found is None:
            self._found = [self._await(sidecar_name(number)) for number in range(self._options.hook_sidecars)]
        wanted = [(priority, each) for each in self._found if (priority := each.priority(point)) is not None]
        # The highest priority first, then by name, as KubeVirt documents it.
        return [each for _, each in sorted(wanted, key=lambda item: (-item[0], item[1].name, item[1].container))]

    def _await(self, container: str) -> HookSidecar:
        until = min(self._deadline, time.monotonic() + _APPEAR_SECONDS)
        while True:
            found = self._look_for(container)
            if found is not None:
                return found
            if time.monotonic() >= until:
                raise Unanswered(f"hook sidecar {container} serves no socket in its directory; see its log")
            time.sleep(_LOOK_SECONDS)

    def _look_for(self, container: str) -> HookSidecar | None:
        """The sidecar at the first of its sockets that answers."""
        for path in _sockets(f"{self._options.hooks_directory}/{container}"):
            try:
                return ask_info(container, path, min(_INFO_SECONDS, self._count_left()))
            except Unanswered:
                continue
        return None

    def _count_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Unanswered("the hook sidecars take too long")
        return left


def _sockets(directory: str) -> list[str]:
    """Sockets in a directory that its sidecar writes; links lead to sockets of others."""
    found: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in itertools.islice(entries, _MOST_ENTRIES):
                if len(found) >= _MOST_SOCKETS:
                    break
                if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    found.append(entry.path)
    except OSError:
        # It may be removed while it is looked at.
        return sorted(found)
    return sorted(found)
