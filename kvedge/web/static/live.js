// The list's rows, kept true over one websocket for everything that lives on the page.

import { read, socketAddress } from "./calls.js";
import { clock, said, t } from "./words/words.js";

const PAUSES = [1000, 2000, 5000, 10000];
const SILENT = 25000;
const key = (row) => `${row.kind}/${row.namespace}/${row.name}`;

export class Live {
  rows = new Map();
  state = t("connecting …");
  #isLost = false;
  #listeners = new Set();
  #tries = 0;
  #socket = null;
  #silence = 0;

  start() {
    const socket = new WebSocket(socketAddress("live"));
    this.#socket = socket;
    socket.addEventListener("message", (event) => { if (socket === this.#socket) this.#take(JSON.parse(event.data)); });
    socket.addEventListener("close", () => { if (socket === this.#socket) this.#again(); });
    this.#listenForSilence();
  }

  stop() {
    clearTimeout(this.#silence);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #take(message) {
    this.#tries = 0;
    this.#listenForSilence();
    if (message.all) this.rows.clear();
    for (const row of message.rows) this.rows.set(key(row), row);
    for (const parts of message.gone) this.rows.delete(parts.join("/"));
    this.state = said(message.trouble);
    this.#isLost = false;
    this.#tell();
  }

  #tell() {
    for (const listener of this.#listeners) listener();
  }

  #listenForSilence() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => { this.#socket?.close(); this.#again(); }, SILENT);
  }

  async #again() {
    this.#socket = null;
    clearTimeout(this.#silence);
    if (!this.#isLost) this.state = t("not connected; shown as of {time}", { time: clock(new Date()) });
    this.#isLost = true;
    this.#tell();
    const pause = PAUSES[Math.min(this.#tries++, PAUSES.length - 1)];
    await new Promise((resolve) => setTimeout(resolve, pause));
    try {
      await read("who");
    } catch (error) {
      if (error.status === 401) {
        location.reload();
        return;
      }
      this.#again();
      return;
    }
    this.start();
  }
}
