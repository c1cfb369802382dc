"""Where the api role serves, and under which names. Registration, admission and subresources share them. Pure."""

from __future__ import annotations

from typing import Final

SERVICE: Final = "kvedge-api"
MUTATE_PATH: Final = "/mutate"
VALIDATE_PATH: Final = "/validate"
# From here on with a secret part behind it: see secret_paths.py. This one is CDI's own path.
MUTATE_CLONE_PATH: Final = "/datavolume-mutate"
MUTATE_VM_PATH: Final = "/mutate-vm"
VALIDATE_VM_PATH: Final = "/validate-vm"
VALIDATE_KUBEVIRT_PATH: Final = "/validate-kubevirt"
VALIDATE_MIGRATION_PATH: Final = "/validate-migration"
VALIDATE_BACKUP_SOURCE_PATH: Final = "/validate-backup-source"
VALIDATE_EVICTION_PATH: Final = "/validate-eviction"
SUBRESOURCE_GROUP: Final = "subresources.kubevirt.io"
SUBRESOURCE_VERSIONS: Final = ("v1", "v1alpha3")
