// A guest's screen by noVNC.

import { socketAddress, streamProtocols } from "./calls.js";
import { button, element } from "./dom.js";
import { t } from "./words/words.js";

export function screenPage(main, live, namespace, name) {
  let screen = null;
  let isOpen = true;
  let isConnected = false;
  const title = t("Screen of {vm}", { vm: `${namespace}/${name}` });
  const state = element("span", { role: "status", class: "grow" }, t("connecting …"));
  const frame = element("div", { class: "screen-frame", "aria-label": title, role: "application", tabindex: "0" });
  // noVNC's canvas is not reached by the tab key. Before it is connected it takes no keys: they stay here.
  frame.addEventListener("focus", () => { if (isConnected) screen.focus(); });
  main.replaceChildren(
    element("h1", {}, title),
    element("div", { class: "bar" }, state,
      button(t("Ctrl-Alt-Del"), () => screen?.sendCtrlAltDel()),
      button(t("Full screen"), () => frame.requestFullscreen()),
      button(t("Connect again"), open),
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
    main.querySelector("button").focus();
  }, true);

  async function open() {
    screen?.disconnect();
    screen = null;
    isConnected = false;
    const { default: RFB } = await import("./vendor/screen.js");
    let wsProtocols;
    try {
      wsProtocols = await streamProtocols(namespace, name, "vnc");
    } catch (error) {
      state.textContent = error.message;
      return;
    }
    if (!isOpen) return;
    frame.replaceChildren();
    const mine = new RFB(frame, socketAddress("stream"), { wsProtocols });
    screen = mine;
    mine.scaleViewport = true;
    mine.addEventListener("connect", () => { isConnected = screen === mine; state.textContent = t("connected"); mine.focus(); });
    mine.addEventListener("disconnect", () => {
      if (screen !== mine) return;
      isConnected = false;
      state.textContent = t("disconnected: {why}", { why: t("the guest's end was closed, or another viewer took it over") });
    });
    mine.addEventListener("securityfailure", () => { state.textContent = t("the screen refused the connection"); });
  }

  open();
  return () => { isOpen = false; screen?.disconnect(); };
}
