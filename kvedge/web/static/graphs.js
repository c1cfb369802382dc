// What a guest uses, as lines over the last minutes; asked for while the page is open.

import { CallFailed, read, vmPath } from "./calls.js";
import { drawn, element } from "./dom.js";

const PAUSE = 5000;
const SECONDS = 300;
const WIDTH = 300;
const HEIGHT = 60;
const FORBIDDEN = 403;

const size = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
};
const rate = (value) => `${size(value)}/s`;

const GRAPHS = [
  { title: "CPU", least: 1, text: (value) => `${Math.round(value * 100)} %`, lines: [["used", (use) => use.cpus]] },
  { title: "Memory", least: 1 << 20, text: size, lines: [["used", (use) => use.guestMemoryBytes ?? use.residentBytes]] },
  { title: "Disks", least: 1 << 16, text: rate, lines: [["read", (use) => use.readBytesPerSecond], ["written", (use) => use.writtenBytesPerSecond]] },
  { title: "Networks", least: 1 << 12, text: rate, lines: [["received", (use) => use.receivedBytesPerSecond], ["sent", (use) => use.sentBytesPerSecond]] },
];

export function graphsPart(namespace, name) {
  let isOpen = true;
  let timer = 0;
  let points = [];
  const state = element("p", { role: "status" });
  const shown = element("div", { class: "graphs" });
  const node = element("section", { "aria-label": "What the guest uses", hidden: true }, element("h2", {}, "Use"), state, shown);

  async function look() {
    clearTimeout(timer);
    if (!isOpen || node.hidden) return;
    try {
      const found = await read(`${vmPath(namespace, name)}/use`);
      if (!isOpen || node.hidden) return;
      if (found.moment !== points.at(-1)?.moment) points.push(found);
      points = points.filter(({ moment }) => moment >= found.moment - SECONDS);
      state.textContent = found.use === null ? "Nothing is known of it yet." : found.use.answers ? "" : "The guest's launcher does not answer.";
      shown.replaceChildren(...GRAPHS.map((graph) => figure(graph, points)));
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      state.textContent = error.message;
      // Rights do not come back while one looks.
      if (error.status === FORBIDDEN) return;
    }
    timer = setTimeout(look, PAUSE);
  }

  return {
    node,
    // Whether the guest runs, so that there is something to see.
    show: (runs) => {
      if (runs === !node.hidden) return;
      node.hidden = !runs;
      points = [];
      runs ? look() : clearTimeout(timer);
    },
    leave: () => { isOpen = false; clearTimeout(timer); },
  };
}

function figure({ title, least, text, lines }, points) {
  const values = lines.map(([, value]) => points.map(({ use }) => (use === null ? null : value(use))));
  const highest = Math.max(least, ...values.flat().filter((value) => value !== null));
  const end = points.at(-1).moment;
  const words = lines.map(([word], index) => `${word} ${values[index].at(-1) == null ? "-" : text(values[index].at(-1))}`).join(", ");
  const place = (value, index) => `${(WIDTH * (1 - (end - points[index].moment) / SECONDS)).toFixed(1)},${(HEIGHT * (1 - value / highest)).toFixed(1)}`;
  return element("figure", {},
    element("figcaption", {}, element("strong", {}, title), ` ${words}`),
    drawn("svg", { viewBox: `0 -2 ${WIDTH} ${HEIGHT + 4}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}, the last five minutes: now ${words}, at most ${text(highest)}` },
      values.flatMap((series, line) => runsOf(series).map((run) => drawn("polyline", { class: `line-${line}`, points: run.map((index) => place(series[index], index)).join(" ") })))));
}

// The places of values that follow each other without a gap.
function runsOf(series) {
  const runs = [[]];
  series.forEach((value, index) => (value === null ? runs.push([]) : runs.at(-1).push(index)));
  return runs.filter((run) => run.length > 1);
}
