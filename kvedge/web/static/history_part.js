// A VM's snapshots and migrations, with what the user may do to them. Read when they are opened, and while one moves on.

import { CallFailed, read, vmPath, write } from "./calls.js";
import { age, button, confirm, element, note, table } from "./dom.js";

const PAUSE = 3000;

// A part of the page that opens; `draw` makes its elements of what was read.
function openingPart(title, path, draw) {
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
      // The keyboard's place is among what is drawn anew: it stays where it is called the same.
      const had = shown.contains(document.activeElement) ? document.activeElement : null;
      const value = had?.value;
      shown.replaceChildren(...(await draw(found)));
      const again = had && [...shown.querySelectorAll("button, input")].find((node) => nameOf(node) === nameOf(had));
      if (again) {
        if (again.tagName === "INPUT") again.value = value;
        again.focus();
      }
      if (found.moves) timer = setTimeout(look, PAUSE);
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (isOpen) shown.replaceChildren(element("p", { class: "bad" }, error.message));
    }
  }

  return { node: part, look, leave: () => { isOpen = false; clearTimeout(timer); } };
}

const nameOf = (node) => node.getAttribute("aria-label") ?? node.textContent;

async function ask(path, body, done, look) {
  try {
    await write(path, body);
    note(done);
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
    note(error.message, true);
  }
  look();
}

export function snapshotsPart(namespace, name, rights) {
  const path = `${vmPath(namespace, name)}/snapshots`;
  const vm = `${namespace}/${name}`;
  const part = openingPart("Snapshots", path, async ({ snapshots, restores }) => {
    const may = await rights();
    const named = element("input", { type: "text", "aria-label": "Name of the snapshot", placeholder: "Name, or none", autocomplete: "off" });
    const act = (step, snapshot, done) => ask(`${path}/${step}`, { name: snapshot }, done, part.look);
    const restore = async ({ name: one, taken }) => {
      if (await confirm(`Put snapshot ${one} back into ${vm}? What its disks were given since ${taken} is not in it.`, "Restore")) act("restore", one, `${vm} gets the disks of ${one}`);
    };
    const remove = async ({ name: one }) => {
      if (await confirm(`Delete snapshot ${one} of ${vm}, with what it holds?`, "Delete")) act("delete", one, `snapshot ${one} was deleted`);
    };
    const acts = (one) => [
      ...(may.restore && one.ready ? [button("Restore", () => restore(one), { "aria-label": `Restore ${one.name}` })] : []),
      ...(may.deleteSnapshot ? [button("Delete", () => remove(one), { "aria-label": `Delete ${one.name}` })] : []),
    ];
    return [
      may.takeSnapshot ? element("div", { class: "bar" }, named, button("Take a snapshot", () => act("take", named.value.trim(), `a snapshot of ${vm} is taken`))) : [],
      restores.map((one) => element("p", {}, `Snapshot ${one.snapshot} is being put back: ${one.waits}`)),
      snapshots.length
        ? table("Snapshots", ["Name", "Phase", "Taken", "Volumes", "Waits for or failed by", "Acts"], snapshots.map((one) => [one.name, one.phase, one.taken, one.volumes.join(", "), one.waits, element("span", { class: "bar" }, acts(one))]))
        : element("p", {}, "none"),
    ].flat();
  });
  return part;
}

// `runs` says whether the guest runs: no other can move.
export function migrationsPart(namespace, name, rights, runs) {
  const path = `${vmPath(namespace, name)}/migrations`;
  const vm = `${namespace}/${name}`;
  const part = openingPart("Migrations", path, async ({ migrations, moves }) => {
    const may = await rights();
    const migrate = async () => {
      if (await confirm(`Move ${vm} to another node?`, "Migrate")) ask(`${path}/begin`, {}, `${vm} was asked to move`, part.look);
    };
    return [
      element("div", { class: "bar" },
        may.migrate && !moves && runs() ? button("Migrate", migrate) : [],
        may.cancelMigration && moves ? button("Cancel the migration", () => ask(`${path}/cancel`, {}, `${vm} was asked to stay`, part.look)) : []),
      migrations.length
        ? table("Migrations", ["Ago", "Step", "From", "To", "Failed by"], migrations.map((one) => [age(one.created), one.step, one.from, one.to, one.failure]))
        : element("p", {}, "none"),
    ];
  });
  return part;
}
