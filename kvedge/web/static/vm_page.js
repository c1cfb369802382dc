// One VM: state, conditions, disks, interfaces, events, snapshots, migrations, YAML. Read again whenever its row changes.

import { ACTIONS, act } from "./actions.js";
import { read, vmPath } from "./calls.js";
import { button, element, redraw, table } from "./dom.js";
import { backupsPart, wholeActs } from "./copies_part.js";
import { attachDisk, detachButton } from "./disks_part.js";
import { editPart } from "./edit_part.js";
import { graphsPart } from "./graphs.js";
import { guestPart } from "./guest_part.js";
import { migrationsPart, snapshotsPart } from "./history_part.js";
import { vmLink } from "./list_page.js";
import { spiceWay } from "./spice_part.js";
import { age, t, ts } from "./words/words.js";

const FACTS = [[t("State"), "status"], [t("Node"), "node"], [t("Address"), "ip"], [t("Memory"), "memory"], [t("vCPUs"), "cpus"], [t("Image"), "image"], [t("Run strategy"), "runStrategy"], [t("Guest"), "guest"]];

export function vmPage(main, live, namespace, name) {
  let version = null;
  let isOpen = true;
  // Whether the user may ask the guest's agent.
  let isTold = false;
  const actions = element("span", { class: "bar" });
  const content = element("div");
  const whole = element("span", { class: "bar" });
  const ways = element("span", { class: "bar" });
  // What the user may do here; asked once, when it is first needed.
  let known = null;
  const rights = () => (known ??= read(`rights/${encodeURIComponent(namespace)}`).catch(() => { known = null; return {}; }));
  const histories = [snapshotsPart(namespace, name, rights), migrationsPart(namespace, name, rights, () => row()?.status === "Running"), backupsPart(namespace, name, rights), guestPart(namespace, name)];
  let isAsked = false;
  const graphs = graphsPart(namespace, name);
  const isVm = () => live.rows.has(`VirtualMachine/${namespace}/${name}`);
  const manifest = editPart(vmPath(namespace, name), `${namespace}/${name}`, async () => isVm() && (await rights()).edit);
  main.replaceChildren(element("h1", {}, `${namespace}/${name}`), element("div", { class: "bar" }, actions, ways, whole), content, graphs.node, ...histories.map(({ node }) => node), manifest);
  const told = rights().then((may) => {
    histories[0].node.hidden = !may.snapshots;
    histories[1].node.hidden = !may.migrations;
    histories[2].node.hidden = !may.backups;
    isTold = may.agent;
  });

  const row = () => live.rows.get(`VirtualMachine/${namespace}/${name}`) ?? live.rows.get(`VirtualMachineInstance/${namespace}/${name}`);

  async function draw() {
    const now = row();
    const seen = `${now?.version}/${live.state}`;
    if (seen === version) return;
    version = seen;
    for (const { look } of histories) look();
    const runs = now && ["Running", "Paused", "Starting", "Migrating"].includes(now.status);
    graphs.show(Boolean(now) && ["Running", "Paused", "Migrating"].includes(now.status));
    actions.replaceChildren(
      ...(now ? ACTIONS.filter((action) => action.fits(now)).map((action) => button(action.text, () => act(action, [now]), { disabled: Boolean(live.state) })) : []),
      ...(runs ? [element("a", { href: vmLink(now, "/console") }, t("Serial console")), element("a", { href: vmLink(now, "/screen") }, t("Screen"))] : []));
    // No agent answers of a guest that does not run.
    histories[3].node.hidden = !runs || !isTold;
    try {
      const found = await read(vmPath(namespace, name));
      if (!isOpen || seen !== version) return;
      // What may be done comes a moment later than what there is.
      if (!isAsked) redraw(content, parts(found, {}, namespace, name));
      await told;
      const may = await rights();
      if (!isOpen || seen !== version) return;
      isAsked = true;
      histories[3].node.hidden = !runs || !isTold;
      redraw(ways, runs && found.spice && may.spice ? [await spiceWay(namespace, name)] : []);
      redraw(whole, found.vmUid ? wholeActs(namespace, name, may, found) : []);
      redraw(content, parts(found, may, namespace, name));
    } catch (error) {
      if (isOpen) content.replaceChildren(element("p", { class: "bad" }, error.message));
    }
  }

  const forget = live.onChange(draw);
  draw();
  return () => { isOpen = false; forget(); graphs.leave(); for (const { leave } of histories) leave(); };
}

function parts(vm, may, namespace, name) {
  const facts = FACTS.filter(([, key]) => vm[key]).flatMap(([word, key]) => [element("dt", {}, word), element("dd", {}, vm[key])]);
  const section = (title, rows, heads, cells) => [
    element("h2", {}, title),
    rows.length ? table(title, heads, rows.map(cells)) : element("p", {}, t("none")),
  ];
  return [
    element("dl", {}, facts),
    ...section(t("Conditions"), vm.conditions, ts("Of", "Type", "Status", "Reason", "Message"), (item) => [item.of, item.type, item.status, item.reason, item.message]),
    ...section(t("Disks"), vm.disks, ts("Name", "Source", "Size", "Acts"), (item) => [item.name, item.source, item.size, may.detach && vm.detachable.includes(item.name) ? detachButton(namespace, name, item.name) : ""]),
    ...(may.disks ? [element("p", {}, button(t("Attach a disk"), () => attachDisk(namespace, name)))] : []),
    ...section(t("Interfaces"), vm.interfaces, ts("Name", "MAC", "Addresses", "Known from"), (item) => [item.name, item.mac, item.addresses.join(", "), item.from]),
    ...section(t("Events"), vm.events, ts("Ago", "Type", "About", "Reason", "Message"), (item) => [age(item.time), item.type, item.about, item.reason, item.message]),
  ];
}
