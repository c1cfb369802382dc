// The list of VMs: filter, choice, actions for those that are chosen.

import { ACTIONS, act } from "./actions.js";
import { button, element, redraw } from "./dom.js";
import { age, plural, t } from "./words/words.js";

export const vmLink = (row, more = "") => `#/vm/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}${more}`;
const COLUMNS = [[t("Namespace"), "namespace"], [t("Name"), "name"], [t("State"), "status"], [t("Node"), "node"], [t("Address"), "ip"], [t("Age"), "created"]];
// Made once: a thousand rows are compared ten thousand times.
const { compare } = new Intl.Collator(undefined, { numeric: true });
const compared = (a, b) => compare(String(a ?? ""), String(b ?? ""));
// More lines take a browser longer to lay out than a user waits.
const MOST_LINES = 250;
const id = (row) => `${row.kind}/${row.namespace}/${row.name}`;

export function listPage(main, live) {
  const chosen = new Set();
  const lines = new Map();
  const filter = element("input", { type: "search", "aria-label": t("Filter VMs by any text"), placeholder: t("Filter"), oninput: draw });
  const count = element("span", { class: "grow", role: "status" });
  const chooseAll = element("input", { type: "checkbox", "aria-label": t("Choose all that are shown"), onchange: chooseShown });
  const body = element("tbody");
  let isWhole = false;
  const rest = element("p", { hidden: true });
  // By which column, and whether from its beginning; rows that are alike there stay by namespace and name.
  let order = { key: "namespace", isUp: true };
  const heads = COLUMNS.map(([word, key]) => element("th", { scope: "col" }, button(word, () => sortBy(key), { class: "head" })));
  const buttons = ACTIONS.map((action) => ({ action, node: button(action.text, () => act(action, fitting(action))) }));
  main.replaceChildren(
    element("h1", {}, t("Virtual machines")),
    element("div", { class: "bar" }, filter, count, buttons.map(({ node }) => node)),
    element("div", { class: "scroll" }, element("table", { "aria-label": t("Virtual machines") },
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, chooseAll),
        heads)),
      body)),
    rest);

  // What the filter leaves, in order.
  function foundRows() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) => [row.namespace, row.name, row.status, row.node, row.ip].join(" ").toLowerCase();
    return [...live.rows.values()]
      .filter((row) => words.every((word) => text(row).includes(word)))
      .sort((a, b) => (order.isUp ? 1 : -1) * compared(a[order.key], b[order.key]) || compared(a.namespace, b.namespace) || compared(a.name, b.name));
  }

  // Those that have a line: nothing is done to what nobody sees.
  const shownRows = () => (isWhole ? foundRows() : foundRows().slice(0, MOST_LINES));

  function sortBy(key) {
    // The youngest first: an age counts the other way round than the moment that it is counted from.
    const isUp = key !== "created";
    order = order.key === key ? { key, isUp: !order.isUp } : { key, isUp };
    markOrder();
    draw();
  }

  function markOrder() {
    COLUMNS.forEach(([, key], place) => {
      const isUp = key === "created" ? !order.isUp : order.isUp;
      if (key === order.key) heads[place].setAttribute("aria-sort", isUp ? "ascending" : "descending");
      else heads[place].removeAttribute("aria-sort");
    });
  }
  const chosenRows = () => (chosen.size ? shownRows().filter((row) => chosen.has(id(row))) : []);
  const fitting = (action) => chosenRows().filter(action.fits);

  function chooseShown() {
    for (const row of shownRows()) chooseAll.checked ? chosen.add(id(row)) : chosen.delete(id(row));
    lines.clear();
    draw();
  }

  // A line is made anew when its row has changed, so that the keyboard's place among the others stays.
  function line(row) {
    const known = lines.get(id(row));
    if (known?.row === row) return known.node;
    const choice = element("input", {
      type: "checkbox", "aria-label": t("Choose {vm}", { vm: `${row.namespace}/${row.name}` }), checked: chosen.has(id(row)),
      onchange: () => { choice.checked ? chosen.add(id(row)) : chosen.delete(id(row)); drawButtons(); },
    });
    const had = known?.node.contains(document.activeElement) && document.activeElement.tagName;
    const node = element("tr", { "data-id": id(row) },
      element("td", {}, choice),
      element("td", {}, row.namespace),
      element("td", {}, element("a", { href: vmLink(row) }, row.name)),
      element("td", { class: row.trouble ? "bad" : "" }, row.status || "-"),
      element("td", {}, row.node || "-"),
      element("td", {}, row.ip || "-"),
      element("td", { class: "age" }, age(row.created)));
    lines.set(id(row), { row, node });
    if (had) queueMicrotask(() => node.querySelector(had === "A" ? "a" : "input").focus());
    return node;
  }

  function drawButtons() {
    const rows = chosenRows();
    for (const { action, node } of buttons) node.disabled = Boolean(live.state) || !rows.some(action.fits);
  }

  function showAll() {
    isWhole = true;
    draw();
    body.children[MOST_LINES]?.querySelector("input").focus();
  }

  function draw() {
    const found = foundRows();
    const rows = isWhole ? found : found.slice(0, MOST_LINES);
    const left = found.length - rows.length;
    rest.hidden = left === 0;
    if (left > 0 && rest.dataset.left !== String(left)) redraw(rest, [t("and {count} more", { count: left }), " ", button(t("Show all"), showAll)]);
    rest.dataset.left = left;
    for (const known of lines.keys()) if (!live.rows.has(known)) lines.delete(known);
    for (const one of chosen) if (!live.rows.has(one)) chosen.delete(one);
    const old = [...body.children];
    const nodes = rows.map(line);
    const isSame = nodes.length === old.length && rows.every((row, place) => old[place].dataset.id === id(row));
    if (isSame) {
      // Only what changed is laid out anew.
      nodes.forEach((node, place) => { if (old[place] !== node) old[place].replaceWith(node); });
    } else {
      // A line that stays keeps the keyboard, wherever it goes.
      const had = body.contains(document.activeElement) ? document.activeElement : null;
      body.replaceChildren(...nodes);
      if (had && body.contains(had)) had.focus();
    }
    count.textContent = found.length === live.rows.size
      ? plural(found.length, "{count} VM", "{count} VMs")
      : plural(live.rows.size, "{shown} of {count} VM", "{shown} of {count} VMs", { shown: found.length });
    main.classList.toggle("stale", Boolean(live.state));
    drawButtons();
  }

  function drawAges() {
    for (const { row, node } of lines.values()) node.querySelector(".age").textContent = age(row.created);
  }

  const forget = live.onChange(draw);
  const timer = setInterval(drawAges, 10000);
  markOrder();
  draw();
  return () => { forget(); clearInterval(timer); main.classList.remove("stale"); };
}
