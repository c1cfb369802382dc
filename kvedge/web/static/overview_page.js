// The box or cluster at a glance: what it has and uses, what its VMs do, what is wrong, what is under way.

import { CallFailed, read } from "./calls.js";
import { alarmsTable, tasksTable } from "./cluster_pages.js";
import { element, redraw } from "./dom.js";
import { bytes, number, plural, t } from "./words/words.js";

const PAUSE = 5000;
const MILLI = 1000;
const cpus = (milli) => number(milli / MILLI, { maximumFractionDigits: 1 });

// A bar with words beside it: how much of how much.
function bar(label, part, whole, write) {
  const text = whole ? t("{part} of {whole}", { part: write(part), whole: write(whole) }) : write(part);
  return [element("dt", {}, label), element("dd", {},
    whole ? element("meter", { min: 0, max: whole, value: Math.min(part, whole), "aria-label": `${label}: ${text}` }) : [], ` ${text}`)];
}

const fact = (label, text) => [element("dt", {}, label), element("dd", {}, text)];
const link = (page, text) => element("p", {}, element("a", { href: `#/${page}` }, text));

function roomPart({ nodes, used, guests }) {
  const room = nodes ?? { cpu: 0, memory: 0 };
  return [
    element("h2", {}, t("Load and room")),
    element("dl", {},
      nodes ? fact(t("Nodes"), nodes.ready === nodes.count ? plural(nodes.count, "{count} node is ready", "{count} nodes are ready") : t("{ready} of {count} nodes are ready", nodes)) : [],
      used ? bar(t("CPUs in use"), used.cpu, room.cpu, cpus) : [],
      used ? bar(t("Memory in use"), used.memory, room.memory, bytes) : [],
      bar(t("vCPUs of guests"), guests.cpu, room.cpu, cpus),
      bar(t("Memory of guests"), guests.memory, room.memory, bytes)),
    nodes ? [] : element("p", {}, t("You may not see the nodes.")),
    nodes && !used ? element("p", {}, t("Nobody measures what the nodes use.")) : [],
  ].flat();
}

function countStates(rows) {
  const counts = new Map();
  for (const { status } of rows) counts.set(status || "-", (counts.get(status || "-") ?? 0) + 1);
  return [...counts].sort(([a], [b]) => a.localeCompare(b));
}

function listPart(title, page, found, none, draw) {
  return [
    element("h2", {}, title),
    found === null ? element("p", {}, t("You may not see them.")) : found.failure ? element("p", { class: "bad" }, found.failure) : found.rows.length ? draw(found.rows) : element("p", {}, none),
    found?.more ? link(page, t("and {count} more", { count: found.more })) : [],
  ].flat();
}

export function overviewPage(main, live) {
  let isOpen = true;
  let timer = 0;
  const state = element("p", { role: "status" });
  const vms = element("dl");
  const rooms = element("div");
  const lists = element("div");
  main.replaceChildren(element("h1", {}, t("Overview")), state, rooms, element("h2", {}, t("Virtual machines")), vms, link("", t("All virtual machines")), lists);

  const drawVms = () => redraw(vms, countStates(live.rows.values()).flatMap(([status, count]) => fact(status, number(count))));

  async function look() {
    try {
      const found = await read("overview");
      if (!isOpen) return;
      state.textContent = "";
      redraw(rooms, roomPart(found));
      redraw(lists, [
        ...listPart(t("Alarms"), "alarms", found.alarms, t("No alarms."), alarmsTable),
        ...listPart(t("Tasks"), "tasks", found.tasks, t("Nothing is under way."), tasksTable),
      ]);
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (isOpen) state.textContent = error.message;
    }
    if (isOpen) timer = setTimeout(look, PAUSE);
  }

  const forget = live.onChange(drawVms);
  drawVms();
  look();
  return () => { isOpen = false; clearTimeout(timer); forget(); };
}
