"""Who may log in to a VM: its SSH keys and passwords in Secrets, which the guest's agent brings in.

Called by `kvedge credentials`. It has the rights of its user. A Secret is changed against the version that was read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from kvedge.client.credentials.credential_plan import (
    check_owned,
    check_password_user,
    choose_secret,
    credentials_of,
    encode_text,
    key_credential,
    missing_keys,
    new_secret,
    password_secrets,
    secrets_of_user,
    without_keys,
)
from kvedge.client.errors import NotFoundError, RefusedError
from kvedge.client.nearest_vm import add_nearest_hint
from kvedge.client.random_names import random_letters
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import Conflict, KubeError, NotFound
from kvedge.kube.patches import at_version
from kvedge.resources.types.core import Secret
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

T = TypeVar("T")

# Somebody who writes the object all the time is followed for so many tries.
_TRIES: Final = 5


class VmCredentials:
    """The credentials of one VM."""

    def __init__(self, session: Session, name: str, *, force: bool) -> None:
        """`force` also changes Secrets that are not the VM's own, and a VM that runs.

        Raises:
            NotFoundError: when there is no such VM.
        """
        self._session = session
        self._name = check_name(name)
        self._force = force
        self.vm = self._read_vm()

    def user_has_secret(self, user: str) -> bool:
        """Whether there is a Secret with this user's keys."""
        return bool(secrets_of_user(self.vm, user))

    def add_keys(self, user: str, keys: Sequence[str], secret: str) -> str:
        """Put keys into a Secret of the user's that is there; the text says what was done.

        Raises:
            RefusedError: when there is none, or it is not clear which, or it is not the VM's own.
        """
        secrets = secrets_of_user(self.vm, user)
        if not secrets:
            raise RefusedError(f"no secrets specified for user: {user}; --create-secret makes one")
        name = choose_secret(secret, secrets)

        def add() -> str:
            found = self._read_secret(name)
            missing = missing_keys(found.data, keys)
            if not missing:
                return f'Secret "{name}" already contains this SSH key.'
            self._check_owned(found)
            entry = {f"ssh-key-{random_letters()}": encode_text("\n".join(missing) + "\n")}
            self._change(found, entry)
            return f'Successfully added the key to secret "{name}"'

        return _retry(add)

    def create_secret(self, user: str, keys: Sequence[str]) -> str:
        """Make a Secret with these keys, and have the VM name it; the text says what was done.

        Raises:
            RefusedError: when the VM runs, as what its Pod has does not change.
        """
        if not self._force and self._runs():
            name = self._name
            raise RefusedError(
                f"virtual machine {name} is running. Use --force flag to update a running VM, "
                "it will take effect after restart"
            )
        client = self._session.client
        made = client.create(new_secret(self.vm, random_letters(), keys))
        name = made.metadata.name

        def assign() -> None:
            vm = self._read_vm()
            credentials = [*credentials_of(vm), key_credential(name, user)]
            body = {"spec": {"template": {"spec": {"accessCredentials": credentials}}}}
            patch = at_version(body, vm.metadata.resource_version)
            client.patch(VirtualMachine, self._session.namespace, self._name, patch)

        try:
            _retry(assign)
        except BaseException:
            # Nothing names it.
            with contextlib.suppress(KubeError):
                client.delete(Secret, self._session.namespace, name)
            raise
        return f'Created secret "{name}" with the key; a guest that runs gets it after its restart'

    def remove_keys(self, user: str, keys: Sequence[str], secret: str) -> list[str]:
        """Take keys out of all Secrets of the user's, or out of one; each text says what was done.

        Raises:
            RefusedError: when the user does not have that Secret, or it is not the VM's own.
        """
        secrets = secrets_of_user(self.vm, user)
        if not secrets:
            return [f"No secrets associated with user {user}"]
        if secret and secret not in secrets:
            raise RefusedError(f"secret {secret} is not associated with user {user}")
        return [self._remove_from(name, keys) for name in ([secret] if secret else secrets)]

    def set_password(self, user: str, password: str, secret: str) -> str:
        """Put a password into a Secret that is there; the text says what was done.

        Raises:
            RefusedError: when there is none, or it is not clear which, or it is not the VM's own.
        """
        check_password_user(user)
        secrets = password_secrets(self.vm)
        if not secrets:
            raise RefusedError(
                "no secrets assigned to UserPassword AccessCredentials: "
                f"make a Secret, and name it in accessCredentials of VM {self._name}"
            )
        name = choose_secret(secret, secrets)

        def write() -> str:
            found = self._read_secret(name)
            self._check_owned(found)
            self._change(found, {user: encode_text(password)})
            return f'Successfully set password in secret "{name}"'

        return _retry(write)

    def _remove_from(self, name: str, keys: Sequence[str]) -> str:
        def remove() -> str:
            try:
                found = self._read_secret(name)
            except NotFound:
                return f'There is no secret "{name}"'
            changed = without_keys(found.data, keys)
            if not changed:
                return f'Secret "{name}" does not contain this SSH key.'
            self._check_owned(found)
            self._change(found, changed)
            return f'Successfully removed the key from secret "{name}"'

        return _retry(remove)

    def _read_vm(self) -> VirtualMachine:
        try:
            return self._session.client.get(VirtualMachine, self._session.namespace, self._name)
        except NotFound as error:
            hint = add_nearest_hint(self._session, error.message, VirtualMachine.KIND.plural, self._name)
            raise NotFoundError(hint) from error

    def _runs(self) -> bool:
        try:
            self._session.client.get(VirtualMachineInstance, self._session.namespace, self._name)
        except NotFound:
            return False
        return True

    def _read_secret(self, name: str) -> Secret:
        return self._session.client.get(Secret, self._session.namespace, name)

    def _check_owned(self, secret: Secret) -> None:
        if not self._force:
            check_owned(secret, self.vm)

    def _change(self, secret: Secret, data: Mapping[str, str | None]) -> None:
        patch = at_version({"data": dict(data)}, secret.metadata.resource_version)
        self._session.client.patch(Secret, self._session.namespace, secret.metadata.name, patch)


def _retry(change: Callable[[], T]) -> T:
    """What `change` returns, which reads before it writes: somebody else may have written meanwhile."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(Conflict):
            return change()
    return change()
