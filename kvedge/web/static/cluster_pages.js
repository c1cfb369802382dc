// Nodes, volumes and alarms: tables that are read again while they are open.

import { CallFailed, read } from "./calls.js";
import { age, element, table } from "./dom.js";
import { vmLink } from "./list_page.js";

const PAUSE = 10000;

// Commas between what are links or texts.
const listed = (nodes) => nodes.flatMap((node, index) => (index ? [", ", node] : [node]));
const lines = (texts) => texts.map((text) => element("div", {}, text));
const cell = (...children) => element("span", {}, children.flat());
const vmOf = (namespace, name) => element("a", { href: vmLink({ namespace, name }) }, name);

const about = ({ kind, namespace, name, part }) => cell(
  `${kind} `, namespace ? `${namespace}/` : "", kind.startsWith("VirtualMachine") ? vmOf(namespace, name) : name, part ? ` (${part})` : "");

const tablePage = (title, path, none, heads, cells) => (main) => {
  let isOpen = true;
  let timer = 0;
  let shownText = "";
  const state = element("p", { role: "status" });
  const shown = element("div");
  main.replaceChildren(element("h1", {}, title), state, shown);

  async function look() {
    try {
      const found = await read(path);
      if (!isOpen) return;
      state.textContent = found.rows.length === 0 ? none : found.more ? `and ${found.more} more` : "";
      // What is the same stays: so does the keyboard's place.
      if (JSON.stringify(found) !== shownText) {
        shownText = JSON.stringify(found);
        shown.replaceChildren(...(found.rows.length ? [table(title, heads, found.rows.map(cells))] : []));
      }
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (isOpen) state.textContent = error.message;
    }
    if (isOpen) timer = setTimeout(look, PAUSE);
  }

  look();
  return () => { isOpen = false; clearTimeout(timer); };
};

export const nodesPage = tablePage("Nodes", "nodes", "No nodes.",
  ["Name", "State", "Guests", "CPUs", "Memory", "Addresses", "Version", "Kernel", "What is wrong"],
  (node) => [node.name, element("span", { class: node.trouble ? "bad" : "" }, node.state), node.guests, node.cpus, node.memory, node.addresses.join(", "), node.version, node.kernel, cell(lines(node.troubles))]);

export const volumesPage = tablePage("Volumes", "volumes", "No volumes.",
  ["Namespace", "Name", "State", "Size", "Class", "Mode", "Used by", "Age"],
  (one) => [one.namespace, one.name, one.status, one.size, one.storageClass, one.mode, cell(listed(one.usedBy.map((vm) => vmOf(one.namespace, vm)))), age(one.created)]);

export const alarmsPage = tablePage("Alarms", "alarms", "No alarms.",
  ["Severity", "Alarm", "About", "For", "What is wrong", "What to do"],
  (alarm) => [element("span", { class: alarm.severity === "critical" ? "bad" : "" }, alarm.severity), alarm.rule, about(alarm), age(alarm.since), alarm.message, alarm.remedy]);
