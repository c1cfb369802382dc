// Fields of a form: each with its label, what it is for, and a place for what is wrong with it.

import { element } from "./dom.js";

let count = 0;

// `kind` is input, textarea or select; `about` says what it is for; `names` are offered while typing.
export function field({ key, label, kind = "input", about = "", options = [], value = "", onchange, ...attributes }) {
  const id = `field-${++count}`;
  const fault = element("span", { id: `${id}-fault`, class: "fault" });
  const help = about ? element("span", { id: `${id}-about`, class: "about" }, about) : null;
  const offered = kind === "input" && attributes.type !== "password" ? element("datalist", { id: `${id}-offered` }) : null;
  const input = element(kind, {
    id, "aria-describedby": [help && `${id}-about`, `${id}-fault`].filter(Boolean).join(" "),
    autocomplete: "off", spellcheck: "false", list: offered && offered.id, ...attributes,
  }, kind === "select" ? options.map(([name, text]) => element("option", { value: name }, text)) : []);
  input.value = value;
  input.addEventListener("input", () => onchange?.(key));
  const node = element("div", { class: "field" }, element("label", { for: id }, label), input, help ?? [], fault, offered ?? []);
  return {
    key, node, input,
    get value() { return input.value; },
    offer: (names) => offered?.replaceChildren(...names.map((name) => element("option", { value: name }))),
    complain: (text) => {
      fault.textContent = text;
      text ? input.setAttribute("aria-invalid", "true") : input.removeAttribute("aria-invalid");
    },
  };
}

// The place for faults of no field; a screen reader says what comes there.
export const faultList = () => element("div", { class: "faults", role: "alert", hidden: true });

// Shows what the server has said: at the fields that it names and that are shown, all else in the list of faults.
export function showFaults(error, fields, list, isShown = () => true) {
  const causes = error?.causes?.length ? error.causes : error ? [{ field: "", path: "", message: error.message }] : [];
  const left = [];
  for (const one of fields) one.complain("");
  let first = null;
  for (const { field: key, path, message } of causes) {
    const found = fields.find((one) => one.key === key && !one.node.hidden);
    if (!found) left.push(path ? `${path}: ${message}` : message);
    else if (isShown(key)) {
      found.complain(message);
      first ??= found;
    }
  }
  list.replaceChildren(element("ul", {}, left.map((text) => element("li", {}, text))));
  list.hidden = left.length === 0;
  return first;
}
