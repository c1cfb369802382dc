// A guest's screen by noVNC.

import { socketAddress, streamProtocols } from "./calls.js";
import { button, element } from "./dom.js";

export function screenPage(main, live, namespace, name) {
  let screen = null;
  let isOpen = true;
  const state = element("span", { role: "status", class: "grow" }, "connecting …");
  const frame = element("div", { class: "screen-frame", "aria-label": `Screen of ${namespace}/${name}`, role: "application" });
  main.replaceChildren(
    element("h1", {}, `Screen of ${namespace}/${name}`),
    element("div", { class: "bar" }, state,
      button("Ctrl-Alt-Del", () => screen?.sendCtrlAltDel()),
      button("Full screen", () => frame.requestFullscreen()),
      button("Connect again", open),
      element("a", { href: `#/vm/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` }, "Back to the VM")),
    frame);

  async function open() {
    screen?.disconnect();
    screen = null;
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
    mine.addEventListener("connect", () => { state.textContent = "connected"; mine.focus(); });
    mine.addEventListener("disconnect", () => { if (screen === mine) state.textContent = "disconnected: the guest's end was closed, or another viewer took it over"; });
    mine.addEventListener("securityfailure", () => { state.textContent = "the screen refused the connection"; });
  }

  open();
  return () => { isOpen = false; screen?.disconnect(); };
}
