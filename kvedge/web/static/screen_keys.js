// Keys that a page sends to a guest's screen: combinations that a browser keeps for itself, and texts, typed key by key.

import { button, element } from "./dom.js";
import { COMBINATIONS, LAYOUT_NAMES, keysFor } from "./keyboard_layouts.js";
import { language, plural, t } from "./words/words.js";

const MOST_TYPED = 4096;
// A keyboard of QEMU holds 16 keys that its guest has not read yet, and loses the next.
const PAUSE = 20;
const LAYOUT_OF = { de: "de" };
// What is printed on keys differs by language; what is not here is printed on all.
const KEY_WORDS = new Map([["Ctrl", t("Ctrl")], ["Shift", t("Shift")], ["Del", t("Del")], ["Backspace", t("Backspace")], ["Menu", t("Menu")], ["Print", t("Print")]]);
const nameOf = (combination) => combination.split("-").map((key) => KEY_WORDS.get(key) ?? key).join("-");
// Stays for the next screen until the page is loaded again.
let layout = LAYOUT_OF[language] ?? "us";

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE));

function press(screen, keys) {
  for (const { keysym, code } of keys) screen.sendKey(keysym, code, true);
  for (const { keysym, code } of keys.toReversed()) screen.sendKey(keysym, code, false);
}

// A choice of combinations; `screen` gives noVNC's while it is connected, and nothing else.
export function combinations(screen) {
  const choice = element("select", { "aria-label": t("Keys for the guest") },
    Object.keys(COMBINATIONS).map((name) => element("option", { value: name }, nameOf(name))));
  return [choice, button(t("Send the keys"), () => { const mine = screen(); if (mine) press(mine, COMBINATIONS[choice.value]); })];
}

// Opens a window for a text, and types it into the guest.
export function typing(screen, tell) {
  const text = element("textarea", { "aria-label": t("Text for the guest"), rows: "6", cols: "50", maxlength: MOST_TYPED, spellcheck: "false", autocomplete: "off" });
  const chosen = element("select", { "aria-label": t("Keyboard layout of the guest") },
    LAYOUT_NAMES.map(([key, name]) => element("option", { value: key, selected: key === layout }, name)));
  const dialog = element("dialog", { "aria-label": t("Type a text") },
    element("p", {}, t("It is typed key by key: choose the keyboard layout that the guest has.")),
    text,
    element("div", { class: "bar" }, chosen,
      button(t("Cancel"), () => dialog.close("")),
      button(t("Type it"), () => dialog.close("yes"), { class: "yes" })));
  dialog.addEventListener("close", () => {
    layout = chosen.value;
    if (dialog.returnValue === "yes") type(screen, text.value, tell);
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
}

// One text after the other: their keys would be mixed.
let isTyping = false;

async function type(screen, text, tell) {
  if (isTyping) {
    tell(t("another text is still being typed"));
    return;
  }
  isTyping = true;
  try {
    await typeAlone(screen, text, tell);
  } finally {
    isTyping = false;
  }
}

async function typeAlone(screen, text, tell) {
  const { keys, missing } = keysFor(text, layout);
  if (missing) {
    tell(t("nothing was typed: this keyboard layout has no keys for {characters}", { characters: missing }));
    return;
  }
  const mine = screen();
  let typed = 0;
  for (const { held, ...key } of keys) {
    // A text must not go on in the middle to a screen that was opened since.
    if (!mine || screen() !== mine) {
      tell(t("the text was broken off after {count} of {all} keys", { count: typed, all: keys.length }));
      return;
    }
    press(mine, [...held, key]);
    typed++;
    await pause();
  }
  tell(plural(typed, "{count} key was typed", "{count} keys were typed"));
}
