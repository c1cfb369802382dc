// What becomes of a whole VM: clones, backups and VMs of these, and its end.

import { ask } from "./asking.js";
import { vmPath } from "./calls.js";
import { askName, button, confirm, element, table } from "./dom.js";
import { askAndLook, openingPart, timeOf } from "./history_part.js";
import { bytes, said, t, ts } from "./words/words.js";

const size = (value) => (value === null ? "" : bytes(value));

export function backupsPart(namespace, name, rights) {
  const path = `${vmPath(namespace, name)}/backups`;
  const vm = `${namespace}/${name}`;
  let chosen = "";
  const part = openingPart(t("Backups"), path, async ({ repositories, backups, restores }) => {
    const may = await rights();
    const where = element("select", { "aria-label": t("Repository"), onchange: () => { chosen = where.value; } },
      repositories.map((one) => element("option", { selected: one === chosen }, one)));
    const take = () => askAndLook(`${path}/take`, { name: where.value }, t("{vm} is backed up", { vm }), part.look);
    const bringBack = async ({ name: backup, taken }) => {
      const target = await askName(t("Make a VM of the backup of {vm} of {taken}.", { vm, taken: timeOf(taken) }), t("Make it"));
      if (target) askAndLook(`${path}/return`, { backup, target }, t("{target} is made of a backup of {vm}", { target, vm }), part.look);
    };
    return [
      repositories.length === 0 ? element("p", {}, t("There is no repository in this namespace; `kvedge backup add-repository` makes one."))
        : may.backUp ? element("div", { class: "bar" }, where, button(t("Back up now"), take)) : [],
      restores.map((one) => element("p", {}, t("{target} is being made of a backup: {why}", { target: one.target, why: said(one.waits) }))),
      backups.length
        ? table(t("Backups"), ts("Name", "Repository", "Phase", "Taken", "Size", "Added", "Waits for or failed by", "Acts"), backups.map((one) => [one.name, one.repository, one.phase, timeOf(one.taken), size(one.size), size(one.added), said(one.waits),
          may.bringBack && one.complete ? button(t("Make a VM of it"), () => bringBack(one), { "aria-label": t("Make a VM of {name}", { name: one.name }) }) : ""]))
        : element("p", {}, t("none")),
    ].flat();
  });
  return part;
}

// Buttons for what the user may do to the VM as a whole; `shown` is what the page has read of it.
export function wholeActs(namespace, name, may, shown) {
  const vm = `${namespace}/${name}`;
  const path = vmPath(namespace, name);
  const clone = async () => {
    const target = await askName(t("Make another VM like {vm}, with copies of its disks.", { vm }), t("Clone"));
    if (target) ask(`${path}/clone`, { target, snapshot: "" }, t("{target} is made of {vm}", { target, vm }));
  };
  const remove = async () => {
    const here = location.hash;
    const question = t("Delete {vm}? DataVolumes that were made for it go with it, and what is on them.", { vm });
    if (await confirm(question, t("Delete")) && await ask(`${path}/delete`, { uid: shown.vmUid }, t("{vm} was deleted", { vm })) && location.hash === here) location.hash = "#/";
  };
  return [
    ...(may.clone ? [button(t("Clone"), clone)] : []),
    ...(may.delete ? [button(t("Delete"), remove)] : []),
  ];
}
