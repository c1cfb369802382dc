// Nodes, volumes, networks, tasks and alarms: tables that are read again while they are open.

import { ask } from "./asking.js";
import { CallFailed, read, vmPath } from "./calls.js";
import { button, confirm, element, redraw, table } from "./dom.js";
import { vmLink } from "./list_page.js";
import { age, bytes, percent, said, t, ts } from "./words/words.js";

const PAUSE = 10000;

// Commas between what are links or texts.
const listed = (nodes) => nodes.flatMap((node, index) => (index ? [", ", node] : [node]));
const lines = (texts) => texts.map((text) => element("div", {}, text));
const cell = (...children) => element("span", {}, children.flat());
// VMs of other namespaces are told as namespace/name.
const placeOf = (vm, namespace) => (vm.includes("/") ? vm.split("/") : [namespace, vm]);
const vmOf = (namespace, name) => element("a", { href: vmLink({ namespace, name }) }, name);

const about = ({ kind, namespace, name, part }) => cell(
  `${kind} `, namespace ? `${namespace}/` : "", kind.startsWith("VirtualMachine") ? vmOf(namespace, name) : name, part ? ` (${part})` : "");

// A table that is read again while it is open: its element, and what ends it.
export const tablePart = (title, path, none, heads, cells) => () => {
  let isOpen = true;
  let timer = 0;
  let shownText = "";
  const state = element("p", { role: "status" });
  const shown = element("div");

  async function look() {
    try {
      const found = await read(path);
      if (!isOpen) return;
      state.textContent = found.rows.length === 0 ? none : found.more ? t("and {count} more", { count: found.more }) : "";
      if (JSON.stringify(found) !== shownText) {
        shownText = JSON.stringify(found);
        redraw(shown, found.rows.length ? [table(title, heads, found.rows.map(cells))] : []);
      }
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (isOpen) state.textContent = error.message;
    }
    if (isOpen) timer = setTimeout(look, PAUSE);
  }

  look();
  return { node: element("div", {}, state, shown), leave: () => { isOpen = false; clearTimeout(timer); } };
};

const tablePage = (title, ...about) => {
  const make = tablePart(title, ...about);
  return (main) => {
    const { node, leave } = make();
    main.replaceChildren(element("h1", {}, title), node);
    return leave;
  };
};

export const nodesPage = tablePage(t("Nodes"), "nodes", t("No nodes."),
  ts("Name", "State", "Guests", "CPUs", "Memory", "Addresses", "Version", "Kernel", "What is wrong"),
  (node) => [node.name, element("span", { class: node.trouble ? "bad" : "" }, said(node.state)), node.guests, node.cpus, node.memory === null ? "" : bytes(node.memory), node.addresses.join(", "), node.version, node.kernel, cell(lines(node.troubles))]);

export const volumesPage = tablePage(t("Volumes"), "volumes", t("No volumes."),
  ts("Namespace", "Name", "State", "Size", "Class", "Mode", "Used by", "Age"),
  (one) => [one.namespace, one.name, one.status, one.size, one.storageClass, one.mode, cell(listed(one.usedBy.map((vm) => vmOf(one.namespace, vm)))), age(one.created)]);

export const networksPage = tablePage(t("Networks"), "networks", t("No networks besides the Pod network."),
  ts("Namespace", "Name", "Kind", "Bridge or NIC", "VLANs", "Used by", "Age"),
  (one) => [one.namespace, one.name, one.kind, one.bridge || one.nic, one.vlans, cell(listed(one.usedBy.map((vm) => vmOf(...placeOf(vm, one.namespace))))), age(one.created)]);

async function cancel({ namespace, about: vm }) {
  if (!(await confirm(t("Have {vm} stay where it is?", { vm: `${namespace}/${vm}` }), t("Stay")))) return;
  await ask(`${vmPath(namespace, vm)}/migrations/cancel`, {}, t("{vm} stays", { vm: `${namespace}/${vm}` }));
}

// Asked once for each namespace while the page's program runs; what was answered is known at once from then on.
const asked = new Map();
const known = new Map();
function mayCancel(namespace) {
  if (!asked.has(namespace)) asked.set(namespace, read(`rights/${encodeURIComponent(namespace)}`).then(
    (rights) => { known.set(namespace, rights.cancelMigration); return rights.cancelMigration; },
    () => { asked.delete(namespace); return false; }));
  return asked.get(namespace);
}

function cancelButton(one) {
  const name = t("Cancel the {task} of {vm}", { task: said(one.task), vm: one.about });
  const made = button(t("Cancel"), () => cancel(one), { "aria-label": name, hidden: !known.get(one.namespace) });
  mayCancel(one.namespace).then((may) => { made.hidden = !may; });
  return made;
}

const done = ({ percent: part, task, name }) => part === null ? "" : cell(element("progress", { max: 100, value: part, "aria-label": `${said(task)} ${name}` }), ` ${percent(part)}`);

const TASK_HEADS = ts("Task", "Namespace", "Name", "About", "State", "Done", "Began", "Message", "Acts");
const taskCells = (one) => [said(one.task), one.namespace, one.name, one.ofVm && one.about ? vmOf(one.namespace, one.about) : one.about,
    element("span", { class: one.state === "Failed" ? "bad" : "" }, said(one.state)), done(one), age(one.begun), said(one.message),
    one.cancel ? cancelButton(one) : ""];
export const tasksPage = tablePage(t("Tasks"), "tasks", t("Nothing is under way, and nothing has failed."), TASK_HEADS, taskCells);
export const tasksTable = (rows) => table(t("Tasks"), TASK_HEADS, rows.map(taskCells));

const ALARM_HEADS = ts("Severity", "Alarm", "About", "For", "What is wrong", "What to do");
const alarmCells = (alarm) => [element("span", { class: alarm.severity === "critical" ? "bad" : "" }, alarm.severity), alarm.rule, about(alarm), age(alarm.since), alarm.message, alarm.remedy];
export const alarmsPage = tablePage(t("Alarms"), "alarms", t("No alarms."), ALARM_HEADS, alarmCells);
export const alarmsTable = (rows) => table(t("Alarms"), ALARM_HEADS, rows.map(alarmCells));
