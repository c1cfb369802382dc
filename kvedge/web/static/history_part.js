// A VM's snapshots and migrations, with what the user may do to them. Read when they are opened, and while one moves on.

import { ask } from "./asking.js";
import { CallFailed, read, vmPath } from "./calls.js";
import { askName, button, confirm, element, redraw, table } from "./dom.js";
import { age, moment, said, t, ts } from "./words/words.js";

const PAUSE = 3000;

// A part of the page that opens; `draw` makes its elements of what was read.
export function openingPart(title, path, draw) {
  let timer = 0;
  let isOpen = true;
  const shown = element("div");
  const part = element("details", { ontoggle: look }, element("summary", {}, title), shown);

  async function look() {
    clearTimeout(timer);
    if (!part.open || !isOpen) return;
    try {
      const found = await read(path);
      if (!isOpen) return;
      redraw(shown, await draw(found));
      if (found.moves) timer = setTimeout(look, PAUSE);
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (isOpen) shown.replaceChildren(element("p", { class: "bad" }, error.message));
    }
  }

  return { node: part, look, leave: () => { isOpen = false; clearTimeout(timer); } };
}

// Empty until it is known; what is no time stays as it came.
export const timeOf = (text) => (Number.isFinite(Date.parse(text)) ? moment(Date.parse(text)) : text);

export async function askAndLook(path, body, done, look) {
  await ask(path, body, done);
  look();
}

export function snapshotsPart(namespace, name, rights) {
  const path = `${vmPath(namespace, name)}/snapshots`;
  const vm = `${namespace}/${name}`;
  let withMemory = false;
  const part = openingPart(t("Snapshots"), path, async ({ snapshots, restores, runs, noMemory }) => {
    const may = await rights();
    const named = element("input", { type: "text", "aria-label": t("Name of the snapshot"), placeholder: t("Name, or none"), autocomplete: "off" });
    // What was chosen stays while the part is read again.
    const memory = element("input", { type: "checkbox", id: "snapshot-memory", checked: withMemory && !noMemory, disabled: Boolean(noMemory), onchange: () => { withMemory = memory.checked; } });
    const act = (step, snapshot, done, more = {}) => askAndLook(`${path}/${step}`, { name: snapshot, ...more }, done, part.look);
    const take = () => act("take", named.value.trim(), t("a snapshot of {vm} is taken", { vm }), { memory: runs && memory.checked });
    const restore = async ({ name: one, taken, memory: saved }) => {
      const question = t("Put snapshot {snapshot} back into {vm}? What its disks were given since {taken} is not in it.", { snapshot: one, vm, taken: timeOf(taken) });
      const goesOn = saved ? ` ${t("Its next start goes on from the memory in it, where that fits.")}` : "";
      if (await confirm(question + goesOn, t("Restore"))) act("restore", one, t("{vm} gets the disks of {snapshot}", { vm, snapshot: one }));
    };
    const remove = async ({ name: one }) => {
      if (await confirm(t("Delete snapshot {snapshot} of {vm}, with what it holds?", { snapshot: one, vm }), t("Delete"))) act("delete", one, t("snapshot {snapshot} was deleted", { snapshot: one }));
    };
    const copy = async ({ name: one }) => {
      const target = await askName(t("Make another VM like {vm} was at {snapshot}.", { vm, snapshot: one }), t("Clone"));
      if (target) askAndLook(`${vmPath(namespace, name)}/clone`, { target, snapshot: one }, t("{target} is made of {vm}", { target, vm }), part.look);
    };
    const acts = (one) => [
      ...(may.clone && one.ready ? [button(t("Clone"), () => copy(one), { "aria-label": t("Clone {name}", { name: one.name }) })] : []),
      ...(may.restore && one.ready ? [button(t("Restore"), () => restore(one), { "aria-label": t("Restore {name}", { name: one.name }) })] : []),
      ...(may.deleteSnapshot ? [button(t("Delete"), () => remove(one), { "aria-label": t("Delete {name}", { name: one.name }) })] : []),
    ];
    return [
      may.takeSnapshot ? element("div", { class: "bar" }, named, runs ? [memory, element("label", { for: "snapshot-memory" }, t("With the guest's memory"))] : [], button(t("Take a snapshot"), take)) : [],
      may.takeSnapshot && runs && noMemory ? element("p", {}, t("Without memory: {why}", { why: said(noMemory) })) : [],
      restores.map((one) => element("p", {}, t("Snapshot {snapshot} is being put back: {why}", { snapshot: one.snapshot, why: said(one.waits) }))),
      snapshots.length
        ? table(t("Snapshots"), ts("Name", "Phase", "Taken", "Volumes", "Waits for or failed by", "Acts"), snapshots.map((one) => [one.name, one.phase, timeOf(one.taken), [...one.volumes, ...(one.memory ? [t("memory")] : [])].join(", "), said(one.waits), element("span", { class: "bar" }, acts(one))]))
        : element("p", {}, t("none")),
    ].flat();
  });
  return part;
}

// `runs` says whether the guest runs: no other can move.
export function migrationsPart(namespace, name, rights, runs) {
  const path = `${vmPath(namespace, name)}/migrations`;
  const vm = `${namespace}/${name}`;
  const part = openingPart(t("Migrations"), path, async ({ migrations, moves }) => {
    const may = await rights();
    const migrate = async () => {
      if (await confirm(t("Move {vm} to another node?", { vm }), t("Migrate"))) askAndLook(`${path}/begin`, {}, t("{vm} was asked to move", { vm }), part.look);
    };
    return [
      element("div", { class: "bar" },
        may.migrate && !moves && runs() ? button(t("Migrate"), migrate) : [],
        may.cancelMigration && moves ? button(t("Cancel the migration"), () => askAndLook(`${path}/cancel`, {}, t("{vm} was asked to stay", { vm }), part.look)) : []),
      migrations.length
        ? table(t("Migrations"), ts("Ago", "Step", "From", "To", "Failed by"), migrations.map((one) => [age(one.created), said(one.step), one.from, one.to, one.failure]))
        : element("p", {}, t("none")),
    ];
  });
  return part;
}
