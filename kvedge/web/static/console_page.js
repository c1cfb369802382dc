// A guest's serial console. Bytes of the guest go to xterm.js alone; nothing in them sets titles or opens links here.

import { CallFailed, read, socketAddress, streamProtocols, vmPath } from "./calls.js";
import { button, confirm, element } from "./dom.js";
import "./style_nonce.js";
import { plural, said, t } from "./words/words.js";

const MOST_UNWRITTEN = 128 * 1024;
const MOST_LINES = 5000;

export function consolePage(main, live, namespace, name) {
  let socket = null;
  let terminal = null;
  let isOpen = true;
  // Who has asked for another connection meanwhile has the later turn.
  let turn = 0;
  const state = element("span", { role: "status", class: "grow" }, t("connecting …"));
  const frame = element("div", { class: "terminal-frame" });
  // Not before the terminal has shown what was printed before.
  const again = button(t("Connect again"), open, { disabled: true });
  main.replaceChildren(
    element("h1", {}, t("Serial console of {vm}", { vm: `${namespace}/${name}` })),
    element("div", { class: "bar" }, state, again,
      element("a", { href: `#/vm/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` }, t("Back to the VM"))),
    element("p", {}, t("Tab and Escape go to the guest; Ctrl-Shift-F6 leaves the terminal.")),
    frame);

  async function begin() {
    const { Terminal } = await import("./vendor/terminal.js");
    if (!isOpen) return;
    terminal = new Terminal({ cols: 80, rows: 24, scrollback: MOST_LINES, allowProposedApi: false, linkHandler: { activate() {} } });
    terminal.open(frame);
    terminal.attachCustomKeyEventHandler((event) => {
      if (!(event.ctrlKey && event.shiftKey && event.key === "F6")) return true;
      main.querySelector("button").focus();
      return false;
    });
    const encoder = new TextEncoder();
    const send = (data) => { if (socket?.readyState === WebSocket.OPEN) socket.send(data); };
    terminal.onData((text) => send(encoder.encode(text)));
    terminal.onBinary((text) => send(Uint8Array.from(text, (character) => character.charCodeAt(0))));
    frame.addEventListener("paste", (event) => {
      const text = event.clipboardData.getData("text/plain");
      if (!text.includes("\n")) return;
      event.preventDefault();
      event.stopPropagation();
      confirm(plural(text.split("\n").length, "Paste {count} line into the guest?", "Paste {count} lines into the guest?"), t("Paste")).then((yes) => { if (yes) terminal.paste(text); });
    }, true);
    await showEarlier();
    if (!isOpen) return;
    again.disabled = false;
    await open();
    terminal.focus();
  }

  // What the guest has printed before; without the right to read it the console begins empty.
  async function showEarlier() {
    try {
      const { bytes } = await read(`${vmPath(namespace, name)}/log`);
      if (!bytes) return;
      terminal.write(Uint8Array.from(bytes, (character) => character.charCodeAt(0)));
      // The guest may have left the screen in any state; its next bytes come to a clean one. All of it is shown before
      // the guest is connected: what a terminal answers to old questions must not be typed into it.
      await new Promise((resolve) => terminal.write(`\x1b[!p\x1b[?1049l\x1b[?1000;1002;1003l\x1b[0m\r\n\x1b[7m ${t("until here from the log; now it is connected anew")} \x1b[0m\r\n`, resolve));
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
    }
  }

  async function open() {
    const mineIsDue = ((number) => () => isOpen && turn === number)(++turn);
    let unwritten = 0;
    let protocols;
    socket?.close();
    try {
      protocols = await streamProtocols(namespace, name, "console");
    } catch (error) {
      if (mineIsDue()) state.textContent = error.message;
      return;
    }
    if (!mineIsDue()) return;
    const mine = new WebSocket(socketAddress("stream"), protocols);
    socket = mine;
    mine.binaryType = "arraybuffer";
    mine.addEventListener("open", () => { state.textContent = t("connected"); });
    mine.addEventListener("message", (event) => {
      unwritten += event.data.byteLength;
      // Browsers cannot stop reading a websocket: a guest that writes faster than the terminal shows is cut off.
      if (unwritten > 64 * MOST_UNWRITTEN) {
        mine.close();
        state.textContent = t("the guest writes faster than this page can show: connect again");
        return;
      }
      terminal.write(new Uint8Array(event.data), () => { unwritten -= event.data.byteLength; });
    });
    mine.addEventListener("close", (event) => {
      if (socket === mine) state.textContent = t("disconnected: {why}", { why: event.reason ? said(event.reason) : t("the connection broke") });
    });
  }

  begin();
  return () => { isOpen = false; socket?.close(); terminal?.dispose(); };
}
