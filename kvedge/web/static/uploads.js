// Uploads of images: each goes on while other pages are looked at, and where it was after a lost connection.

import { CallFailed, failureOf, read, write } from "./calls.js";
import { said, t } from "./words/words.js";

const SAMPLE = 1 << 20;
const MIB = 1 << 20;
const LOOK = 1000;
const LONGEST_PAUSE = 30000;
const MOST_FAILURES = 8;
// No answer, and those that may be another one later.
const PASSING = [0, 500, 502, 503, 504];
const CONFLICT = 409;
const NOT_FOUND = 404;
// Of the browser, not of an answer.
const UNREADABLE = -1;
const QCOW2 = [0x51, 0x46, 0x49, 0xfb];
const SIZE_AT = 24;
const HEADER = 32;
const PACKED = /\.(gz|xz|zst|bz2)$/i;

const uploads = new Set();
const listeners = new Set();
const tell = () => { for (const listener of listeners) listener(); };

export const allUploads = () => [...uploads];

export function onUploads(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

addEventListener("beforeunload", (event) => { if (allUploads().some((one) => one.isActive)) event.preventDefault(); });

// How large the disk has to be for a file, as a quantity; empty where nothing tells.
export async function sizeFor(file) {
  const head = new DataView(await file.slice(0, HEADER).arrayBuffer());
  const isQcow2 = head.byteLength === HEADER && QCOW2.every((byte, index) => head.getUint8(index) === byte);
  if (!isQcow2 && PACKED.test(file.name)) return "";
  const bytes = isQcow2 ? Number(head.getBigUint64(SIZE_AT)) : file.size;
  return `${Math.max(1, Math.ceil(bytes / MIB))}Mi`;
}

// A file that was changed or removed since it was chosen, or a folder, cannot be read.
async function bytesOf(blob) {
  try {
    return await blob.arrayBuffer();
  } catch {
    throw new CallFailed(UNREADABLE, t("the file cannot be read, or was changed since: choose it again"));
  }
}

async function identityOf(file) {
  const about = new TextEncoder().encode(`${file.size} ${file.lastModified}`);
  const parts = [about, file.slice(0, SAMPLE), file.slice(Math.max(0, file.size - SAMPLE))];
  const digest = await crypto.subtle.digest("SHA-256", await bytesOf(new Blob(parts)));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Upload {
  constructor(file, { namespace, name, size, storageClass, offer }) {
    Object.assign(this, { file, namespace, name, size, storageClass, offer });
    this.path = `uploads/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
    this.sent = 0;
    this.isActive = true;
    this.isFailed = false;
    this.isCancelled = false;
    // Whether its DataVolume is there, as far as is known.
    this.isMade = false;
    this.request = null;
    this.wake = () => {};
    this.over = Promise.resolve();
    this.state = "";
  }

  say(state, isLast = false) {
    if (!this.isCancelled || isLast) this.state = state;
    tell();
  }

  // Also once more after a failure: it goes on with what is there.
  run() {
    uploads.add(this);
    Object.assign(this, { isActive: true, isFailed: false });
    this.say(t("begins"));
    this.over = this.attempt();
  }

  async attempt() {
    try {
      await this.work();
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      this.isFailed = !this.isCancelled;
      if (this.isFailed) this.say(this.isMade ? t("{why}; its DataVolume is left", { why: error.message }) : error.message);
    } finally {
      this.isActive = false;
      tell();
    }
  }

  async work() {
    await write(`${this.path}/begin`, { size: this.size, storageClass: this.storageClass });
    this.isMade = true;
    await this.until("ready", ({ ready, message }) => { this.say(ready ? t("is ready") : said(message) || t("waits for its disk")); return ready; });
    await this.sendAll(await identityOf(this.file));
    this.say(t("is checked and converted"));
    await this.until("done", ({ done }) => done);
    if (this.isCancelled) return;
    if (this.offer) await write(`${this.path}/offer`);
    this.say(t("is done"));
  }

  // Asks until it is so; a console that does not answer for a while is asked again.
  async until(step, isSo) {
    for (let failures = 0; !this.isCancelled;) {
      try {
        if (isSo(await read(`${this.path}/${step}`))) return;
        failures = 0;
      } catch (error) {
        if (!PASSING.includes(error.status) || ++failures >= MOST_FAILURES) throw error;
      }
      await this.rest(LOOK * 2 ** failures);
    }
  }

  // A pause, which a cancel ends.
  rest(milliseconds) {
    if (this.isCancelled) return Promise.resolve();
    return new Promise((resolve) => { this.wake = resolve; setTimeout(resolve, milliseconds); });
  }

  async sendAll(identity) {
    let furthest = 0;
    let isAnswerLost = false;
    for (let failures = 0; !this.isCancelled;) {
      try {
        if (isAnswerLost && (await read(`${this.path}/done`)).done) return;
        const { call, offset } = await write(`${this.path}/offset`, { identity });
        await this.send(identity, call, offset);
        return;
      } catch (error) {
        // All was sent, and the answer was lost: that it was taken is what the next try is refused with.
        if (isAnswerLost && error.status === CONFLICT) return;
        if (!(error instanceof CallFailed) || !PASSING.includes(error.status) || this.isCancelled) throw error;
        failures = this.sent > furthest ? 1 : failures + 1;
        furthest = Math.max(furthest, this.sent);
        isAnswerLost ||= furthest === this.file.size;
        if (failures >= MOST_FAILURES) throw error;
        await bytesOf(this.file.slice(0, 1));
        this.say(t("{why}; goes on by itself", { why: error.message }));
        await this.rest(Math.min(LONGEST_PAUSE, LOOK * 2 ** (failures - 1)));
      }
    }
  }

  send(identity, call, offset) {
    if (this.isCancelled) throw new CallFailed(0, t("cancelled"));
    const request = new XMLHttpRequest();
    this.request = request;
    return new Promise((resolve, reject) => {
      request.open("POST", `${this.path}/data`);
      const headers = { "Content-Type": "application/octet-stream", "X-Kvedge-Console": "1", "X-Kvedge-Upload-Id": identity, "X-Kvedge-Upload-Offset": offset, "X-Kvedge-Upload-Call": call };
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      request.upload.onprogress = ({ loaded }) => { this.sent = offset + loaded; this.say(t("is sent")); };
      request.onload = () => {
        if (request.status === 200) { this.sent = this.file.size; resolve(); return; }
        reject(failureOf(request.status, answerOf(request)));
      };
      request.onerror = () => reject(new CallFailed(0, t("the connection was lost")));
      request.onabort = () => reject(new CallFailed(0, t("cancelled")));
      request.send(this.file.slice(offset));
    });
  }

  // What has arrived goes with its DataVolume, which is made no more once the step that is under way is over.
  async cancel() {
    this.isCancelled = true;
    this.request?.abort();
    this.wake();
    this.say(t("is being cancelled"), true);
    await this.over;
    try {
      await write(`${this.path}/cancel`);
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (error.status !== NOT_FOUND) {
        this.isFailed = true;
        this.say(t("was stopped, and its DataVolume may be left: {why}", { why: error.message }), true);
        return;
      }
    }
    Object.assign(this, { isMade: false, isFailed: false });
    this.say(t("was cancelled"), true);
  }

  forget() {
    uploads.delete(this);
    tell();
  }
}

function answerOf(request) {
  try {
    return JSON.parse(request.responseText);
  } catch {
    return {};
  }
}
