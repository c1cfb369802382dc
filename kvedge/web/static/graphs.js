// What a guest uses, as lines: over the last minutes as it is seen while the page is open, or as its node has kept it.

import { CallFailed, read, vmPath } from "./calls.js";
import { drawn, element } from "./dom.js";
import { field } from "./fields.js";
import { bytes, moment, percent, t } from "./words/words.js";

const LIVE = "live";
// For each span: its name, how it is called in a sentence, and after how long it is asked for again.
const SPANS = new Map([
  [LIVE, [t("Last 5 minutes"), t("the last five minutes"), 5000]],
  ["hour", [t("Last hour"), t("the last hour"), 10000]],
  ["day", [t("Last day"), t("the last day"), 60000]],
  ["month", [t("Last 30 days"), t("the last 30 days"), 60000]],
]);
const LIVE_SECONDS = 300;
const WIDTH = 300;
const HEIGHT = 60;
const FORBIDDEN = 403;

const rate = (value) => `${bytes(value)}/s`;

const GRAPHS = [
  { title: t("CPU"), isOfCpus: true, least: 1, text: (value) => percent(value * 100), lines: [[t("used"), (use) => use.cpus], [t("waiting"), (use) => use.wait]] },
  { title: t("Memory"), least: 1 << 20, text: bytes, lines: [[t("used"), (use) => use.guestMemoryBytes ?? use.residentBytes]] },
  { title: t("Disks"), least: 1 << 16, text: rate, lines: [[t("read"), (use) => use.readBytesPerSecond], [t("written"), (use) => use.writtenBytesPerSecond]] },
  { title: t("Networks"), least: 1 << 12, text: rate, lines: [[t("received"), (use) => use.receivedBytesPerSecond], [t("sent"), (use) => use.sentBytesPerSecond]] },
];

export function graphsPart(namespace, name) {
  let isOpen = true;
  let timer = 0;
  let points = [];
  const span = field({ key: "span", label: t("Over"), kind: "select", options: [...SPANS].map(([key, [text]]) => [key, text]), value: LIVE });
  span.input.addEventListener("change", () => { points = []; shown.replaceChildren(); look(); });
  const state = element("p", { role: "status" });
  const shown = element("div", { class: "graphs" });
  const node = element("section", { "aria-label": t("What the guest uses"), hidden: true }, element("h2", {}, t("Use")), span.node, state, shown);

  async function look() {
    clearTimeout(timer);
    const asked = span.value;
    const isStale = () => !isOpen || node.hidden || asked !== span.value;
    if (isStale()) return;
    try {
      const found = await (asked === LIVE ? lookNow() : lookBack(asked));
      if (isStale()) return;
      state.textContent = found.text;
      shown.replaceChildren(...GRAPHS.map((graph) => figure(graph, found.points, found.seconds, SPANS.get(asked)[1])));
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (isStale()) return;
      if (error.status === FORBIDDEN && asked === LIVE) {
        // The figures of all guests need another right than what is kept of this one.
        span.input.value = "hour";
        return look();
      }
      state.textContent = error.message;
      shown.replaceChildren();
      // Rights do not come back while one looks.
      if (error.status === FORBIDDEN) return;
    }
    timer = setTimeout(look, SPANS.get(asked)[2]);
  }

  async function lookNow() {
    const found = await read(`${vmPath(namespace, name)}/use`);
    if (found.moment !== points.at(-1)?.moment) points.push(found);
    points = points.filter(({ moment }) => moment >= found.moment - LIVE_SECONDS);
    const text = found.use === null ? t("Nothing is known of it yet.") : found.use.answers ? "" : t("The guest's launcher does not answer.");
    return { points, seconds: LIVE_SECONDS, text };
  }

  async function lookBack(asked) {
    const { end, step, series = {} } = await read(`${vmPath(namespace, name)}/use/${asked}`);
    const count = Math.max(0, ...Object.values(series).map((values) => values.length));
    const kept = Array.from({ length: count }, (_, index) => ({
      moment: end - (count - 1 - index) * step,
      use: Object.fromEntries(Object.entries(series).map(([key, values]) => [key, values[index]])),
    }));
    const isKnown = Object.values(series).some((values) => values.some((value) => value !== null));
    // Of a guest that nothing is kept of, no end is told either.
    if (!isKnown) return { points: [], seconds: LIVE_SECONDS, text: t("Nothing is kept of it yet.") };
    const times = { from: moment((end - count * step) * 1000), to: moment(end * 1000) };
    return { points: kept, seconds: count * step, text: t("{from} to {to}", times) };
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

function figure({ title, isOfCpus, least, text, lines }, points, seconds, over) {
  const series = lines.map(([word, value]) => ({ word, values: points.map(({ use }) => (use === null ? null : value(use) ?? null)) }))
    // A host that does not count what a guest waits for has no such line.
    .filter(({ values }, index) => index === 0 || !isOfCpus || values.some((value) => value !== null));
  const values = series.map((one) => one.values);
  const highest = values.flat().reduce((most, value) => Math.max(most, value ?? 0), least);
  const end = points.at(-1)?.moment ?? 0;
  // The last point is still being filled: for a moment it has nothing.
  const latest = (one) => one.at(-1) ?? one.at(-2);
  const words = series.map(({ word, values: one }) => `${word} ${latest(one) == null ? "-" : text(latest(one))}`).join(", ");
  const most = t("{words}, at most {most}", { words, most: text(highest) });
  const place = (value, index) => `${(WIDTH * (1 - (end - points[index].moment) / seconds)).toFixed(1)},${(HEIGHT * (1 - value / highest)).toFixed(1)}`;
  return element("figure", {},
    element("figcaption", {}, element("strong", {}, title), ` ${most}`),
    drawn("svg", { viewBox: `0 -2 ${WIDTH} ${HEIGHT + 4}`, preserveAspectRatio: "none", role: "img", "aria-label": t("{title}, {over}: now {most}", { title, over, most }) },
      values.flatMap((one, line) => runsOf(one).map((run) => drawn("polyline", { class: `line-${line}`, points: run.map((index) => place(one[index], index)).join(" ") })))));
}

// The places of values that follow each other without a gap.
function runsOf(series) {
  const runs = [[]];
  series.forEach((value, index) => (value === null ? runs.push([]) : runs.at(-1).push(index)));
  return runs.filter((run) => run.length > 1);
}
