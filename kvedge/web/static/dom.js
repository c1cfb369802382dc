// Elements with text in them. Whatever a guest, a user or a server wrote goes through here, and becomes text nodes.

import { t } from "./words/words.js";

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) {
      made.addEventListener(key.slice(2), value);
    } else if (value === true) {
      made.setAttribute(key, "");
    } else if (value !== false && value != null) {
      made.setAttribute(key, value);
    }
  }
  made.append(...children.flat().map((child) => (child instanceof Node ? child : document.createTextNode(String(child ?? "")))));
  return made;
}

// The same for what is drawn.
export function drawn(name, attributes, children = []) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export const button = (text, onclick, attributes = {}) => element("button", { type: "button", onclick, ...attributes }, text);

// Words up to so many letters are not broken, whatever a table's columns are like.
const MOST_UNBROKEN = 12;

function tableCell(name, attributes, content) {
  const made = element(name, attributes, content);
  if (made.textContent.split(/[\s-]/).every((word) => word.length <= MOST_UNBROKEN)) made.className = "short";
  return made;
}

export function table(caption, heads, rows) {
  return element("div", { class: "scroll" }, element("table", { "aria-label": caption },
    element("thead", {}, element("tr", {}, heads.map((head) => tableCell("th", { scope: "col" }, head)))),
    element("tbody", {}, rows.map((cells) => element("tr", {}, cells.map((cell) => tableCell("td", {}, cell)))))));
}

const nameOf = (node) => node.getAttribute("aria-label") ?? node.textContent;

// Draws anew what is in a place. The keyboard's place in it, and what was typed there, stay where it is called the same.
export function redraw(shown, nodes) {
  const had = shown.contains(document.activeElement) ? document.activeElement : null;
  const value = had?.value;
  shown.replaceChildren(...nodes);
  const again = had && [...shown.querySelectorAll("button, input, select, a")].find((node) => nameOf(node) === nameOf(had));
  if (!again) return;
  if (again.tagName === "INPUT") again.value = value;
  again.focus();
}

// A line for the user that goes by itself; failures stay longer.
export function note(text, isFailure = false) {
  const line = element("p", { class: isFailure ? "bad" : "" }, text);
  document.getElementById("notes").append(line);
  setTimeout(() => line.remove(), isFailure ? 20000 : 5000);
}

export function confirm(question, word) {
  return new Promise((resolve) => {
    const dialog = element("dialog", { "aria-label": question },
      element("p", {}, question),
      element("div", { class: "bar" },
        button(t("Cancel"), () => dialog.close("")),
        button(word, () => dialog.close("yes"), { class: "yes" })));
    dialog.addEventListener("close", () => { resolve(dialog.returnValue === "yes"); dialog.remove(); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// Asks for the name of a new object; empty when the user wants none.
export function askName(question, word) {
  return new Promise((resolve) => {
    const name = element("input", { type: "text", "aria-label": t("Name of the new VM"), autocomplete: "off", spellcheck: "false", maxlength: 253 });
    const dialog = element("dialog", { "aria-label": question },
      // The key Enter is as good as the button.
      element("form", { method: "dialog" },
        element("p", {}, question),
        element("p", {}, name),
        element("div", { class: "bar" },
          button(t("Cancel"), () => dialog.close("")),
          element("button", { type: "submit", value: "yes", class: "yes" }, word))));
    dialog.addEventListener("close", () => { resolve(dialog.returnValue === "yes" ? name.value.trim() : ""); dialog.remove(); });
    document.body.append(dialog);
    dialog.showModal();
    name.focus();
  });
}
