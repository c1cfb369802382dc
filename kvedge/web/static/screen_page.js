// A guest's screen by noVNC.

import { socketAddress, streamProtocols } from "./calls.js";
import { button, confirm, element } from "./dom.js";
import { combinations, typing } from "./screen_keys.js";
import { said, t } from "./words/words.js";

// What the console closes a stream with when another viewer has the screen, and was not to lose it.
const TAKEN = 4009;

export function screenPage(main, live, namespace, name) {
  let screen = null;
  let isOpen = true;
  let isConnected = false;
  // Who has asked for another connection meanwhile has the later turn.
  let turn = 0;
  const vm = `${namespace}/${name}`;
  const title = t("Screen of {vm}", { vm });
  const state = element("span", { role: "status", class: "grow" }, t("connecting …"));
  const frame = element("div", { class: "screen-frame", "aria-label": title, role: "application", tabindex: "0" });
  const connected = () => (isConnected ? screen : null);
  const tell = (text) => { state.textContent = text; };
  // noVNC's canvas is not reached by the tab key. Before it is connected it takes no keys: they stay here.
  frame.addEventListener("focus", () => connected()?.focus());
  main.replaceChildren(
    element("h1", {}, title),
    element("div", { class: "bar" }, state,
      combinations(connected),
      button(t("Type a text"), () => typing(connected, tell)),
      button(t("Save a picture"), save),
      button(t("Full screen"), () => frame.requestFullscreen()),
      button(t("Connect again"), () => open(false)),
      element("a", { href: `#/vm/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` }, t("Back to the VM"))),
    element("p", {}, t("Tab and Escape go to the guest; Ctrl-Shift-F6 leaves the screen.")),
    frame);

  // The guest gets all keys but these: without them the keyboard would never come out again.
  frame.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey && event.shiftKey && event.key === "F6")) return;
    event.preventDefault();
    event.stopPropagation();
    // noVNC lets go of all keys that it has told the guest of, as when another window is chosen.
    dispatchEvent(new Event("blur"));
    main.querySelector("select").focus();
  }, true);

  function save() {
    connected()?.toBlob((picture) => {
      if (!picture) return;
      const address = URL.createObjectURL(picture);
      element("a", { href: address, download: `${namespace}-${name}.png` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 0);
    });
  }

  async function open(takesOver) {
    const mineIsDue = ((number) => () => isOpen && turn === number)(++turn);
    screen?.disconnect();
    screen = null;
    isConnected = false;
    const { default: RFB } = await import("./vendor/screen.js");
    let protocols;
    try {
      protocols = await streamProtocols(namespace, name, "vnc", takesOver);
    } catch (error) {
      if (mineIsDue()) tell(error.message);
      return;
    }
    if (!mineIsDue()) return;
    const socket = new WebSocket(socketAddress("stream"), protocols);
    frame.replaceChildren();
    const mine = new RFB(frame, socket, {});
    screen = mine;
    mine.scaleViewport = true;
    mine.addEventListener("connect", () => { isConnected = screen === mine; tell(t("connected")); mine.focus(); });
    mine.addEventListener("securityfailure", () => { tell(t("the screen refused the connection")); });
    socket.addEventListener("close", ({ code, reason }) => {
      if (screen !== mine || !isOpen) return;
      isConnected = false;
      if (code === TAKEN) ask();
      else tell(t("disconnected: {why}", { why: reason ? said(reason) : t("the connection broke") }));
    });
  }

  async function ask() {
    tell(t("somebody else looks at this screen"));
    if (await confirm(t("Somebody else looks at the screen of {vm}. Take it from them?", { vm }), t("Take it over")) && isOpen) open(true);
  }

  open(false);
  return () => { isOpen = false; screen?.disconnect(); };
}
