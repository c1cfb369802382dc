"""Keeps StorageProfiles, the CDIConfig and DataSources true.

Run by the controller role where CDI is not installed. A profile is made for each storage class, and goes with it by its
owner; the configuration is made once, and users with the right may change it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.controller.datavolumes.storage_facts.named_snapshots import find_snapshot
from kvedge.controller.datavolumes.storage_facts.storage_facts_plan import plan_config, plan_data_source, plan_profile
from kvedge.kube.errors import AlreadyExists, NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.data_volume_names import APP, APP_LABEL
from kvedge.resources.disks.uploads import UPLOAD_PROXY_CA_KEY, UPLOAD_PROXY_CONFIG, UPLOAD_PROXY_URL_KEY
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.core import ConfigMap
from kvedge.resources.types.data_volumes import CONFIG_NAME, CdiConfig, DataSource, StorageProfile
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.runtime.clock import Clock

# The namespace of a key tells its kind: a class, the configuration, or a DataSource. No real namespace has these names.
_CLASS: Final = "/class"
_CONFIG: Final = "/config"
# The proxy's address is in an object that is not watched.
_CONFIG_SECONDS: Final = 30.0
_SNAPSHOT_SECONDS: Final = 30.0


class StorageFactsSources(Struct, frozen=True):
    """The informers and writers that the loop works with."""

    client: KubeClient
    classes: Informer[StorageClass]
    profiles: Informer[StorageProfile]
    configs: Informer[CdiConfig]
    data_sources: Informer[DataSource]
    claims: Informer[PersistentVolumeClaim]
    clock: Clock


class StorageFactsLoop:
    """One reconcile loop over classes, DataSources and the configuration."""

    def __init__(self, sources: StorageFactsSources) -> None:
        self._sources = sources
        self._client = sources.client
        self.loop = ReconcileLoop("storage-facts", self.reconcile)

    def start(self) -> None:
        """Begin to work."""
        sources = self._sources
        sources.classes.on_change(lambda old, new: self.loop.add(Key(_CLASS, _name(old, new))))
        sources.profiles.on_change(lambda old, new: self.loop.add(Key(_CLASS, _name(old, new))))
        sources.configs.on_change(lambda old, new: self.loop.add(Key(_CONFIG, CONFIG_NAME)))
        sources.data_sources.on_change(lambda old, new: self._look_at_sources(_namespace(old, new)))
        sources.claims.on_change(lambda old, new: self._on_claim())
        self.loop.add(Key(_CONFIG, CONFIG_NAME))
        self.loop.start()

    def stop(self) -> None:
        """End the workers."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one of them."""
        match key.namespace:
            case "/class":
                self._keep_profile(key.name)
            case "/config":
                self._keep_config()
                return Again(_CONFIG_SECONDS)
            case _:
                return self._keep_data_source(key)
        return None

    def _keep_profile(self, name: str) -> None:
        sources = self._sources
        storage_class = sources.classes.get("", name)
        if storage_class is None:
            return
        profile = sources.profiles.get("", name)
        if profile is None:
            kind = StorageClass.KIND
            owner = OwnerReference(
                api_version=kind.api_version, kind=kind.kind, name=name, uid=storage_class.metadata.uid
            )
            meta = ObjectMeta(name=name, labels={APP_LABEL: APP}, owner_references=[owner])
            try:
                profile = self._client.create(StorageProfile(metadata=meta))
            except AlreadyExists:
                profile = self._client.get(StorageProfile, "", name)
        body = plan_profile(storage_class, profile, sources.clock.now())
        if body:
            patch = at_version(body, profile.metadata.resource_version)
            profile = self._client.patch(StorageProfile, "", name, patch, "status")
        sources.profiles.observe(profile)

    def _keep_config(self) -> None:
        sources = self._sources
        config = sources.configs.get("", CONFIG_NAME)
        if config is None:
            try:
                made = CdiConfig(metadata=ObjectMeta(name=CONFIG_NAME, labels={APP_LABEL: APP}))
                config = self._client.create(made)
            except AlreadyExists:
                config = self._client.get(CdiConfig, "", CONFIG_NAME)
        try:
            proxy = self._client.get(ConfigMap, SYSTEM_NAMESPACE, UPLOAD_PROXY_CONFIG).data
        except NotFound:
            proxy = {}
        body = plan_config(config, proxy.get(UPLOAD_PROXY_URL_KEY, ""), proxy.get(UPLOAD_PROXY_CA_KEY, ""))
        if body:
            patch = at_version(body, config.metadata.resource_version)
            config = self._client.patch(CdiConfig, "", CONFIG_NAME, patch)
        sources.configs.observe(config)

    def _keep_data_source(self, key: Key) -> Again | None:
        sources = self._sources
        item = sources.data_sources.get(*key)
        if item is None or item.metadata.deletion_timestamp is not None:
            return None
        body = plan_data_source(
            item,
            lambda name: sources.data_sources.get(key.namespace, name),
            sources.claims.get,
            lambda namespace, name: find_snapshot(self._client, namespace, name),
            sources.clock.now(),
        )
        if body:
            patch = at_version(body, item.metadata.resource_version)
            item = self._client.patch(DataSource, key.namespace, key.name, patch)
            sources.data_sources.observe(item)
        # Snapshots are not watched: where no driver is, the server does not know them.
        return None if item.status.source.snapshot is None else Again(_SNAPSHOT_SECONDS)

    def _look_at_sources(self, namespace: str) -> None:
        for item in self._sources.data_sources.list():
            if not namespace or item.metadata.namespace == namespace:
                self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_claim(self) -> None:
        # DataSources are a site's golden images: a handful.
        self._look_at_sources("")


def _name(old: StorageClass | StorageProfile | None, new: StorageClass | StorageProfile | None) -> str:
    item = new or old
    assert item is not None
    return item.metadata.name


def _namespace(old: DataSource | None, new: DataSource | None) -> str:
    item = new or old
    assert item is not None
    return item.metadata.namespace
