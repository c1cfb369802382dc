// Disks that a VM gets or gives away, also while it runs.

import { ask } from "./asking.js";
import { CallFailed, read, vmPath } from "./calls.js";
import { button, confirm, element } from "./dom.js";
import { field } from "./fields.js";
import { t } from "./words/words.js";

// A button for each disk that may go.
export function detachButton(namespace, name, disk) {
  const vm = `${namespace}/${name}`;
  const detach = async () => {
    if (await confirm(t("Take disk {disk} from {vm}? Its claim stays, with what is on it.", { disk, vm }), t("Detach"))) {
      ask(`${vmPath(namespace, name)}/disks/detach`, { name: disk }, t("{vm} was asked to give {disk} away", { vm, disk }));
    }
  };
  return button(t("Detach"), detach, { "aria-label": t("Detach {name}", { name: disk }) });
}

// Opens a window for the claim and the bus.
export async function attachDisk(namespace, name) {
  const vm = `${namespace}/${name}`;
  const volume = field({ key: "volume", label: t("DataVolume or claim") });
  const bus = field({ key: "bus", label: t("Bus"), kind: "select", value: "scsi", options: [["scsi", "SCSI"], ["virtio", "virtio"]] });
  const dialog = element("dialog", { "aria-label": t("Attach a disk") },
    element("form", { method: "dialog" },
      element("p", {}, t("{vm} gets a disk more, at once where it runs.", { vm })),
      volume.node, bus.node,
      element("div", { class: "bar" },
        button(t("Cancel"), () => dialog.close("")),
        element("button", { type: "submit", value: "yes", class: "yes" }, t("Attach")))));
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "yes") ask(`${vmPath(namespace, name)}/disks/attach`, { volume: volume.value.trim(), bus: bus.value }, t("{vm} was asked to take {disk}", { vm, disk: volume.value.trim() }));
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  try {
    volume.offer((await read(`new/choices/${encodeURIComponent(namespace)}`)).claims);
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
  }
}
