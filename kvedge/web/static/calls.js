// Calls of the console's own server. All addresses are relative, so that it works below any path.

import { said, t } from "./words/words.js";

export class CallFailed extends Error {
  constructor(status, message, causes = []) {
    super(message);
    this.status = status;
    // What is wrong at which field: { field, path, message }.
    this.causes = causes;
  }
}

async function call(method, path, body) {
  const write = method === "GET" ? {} : {
    headers: { "Content-Type": "application/json", "X-Kvedge-Console": "1" },
    body: JSON.stringify(body ?? {}),
  };
  let answer;
  try {
    answer = await fetch(path, { method, ...write });
  } catch {
    throw new CallFailed(0, t("the console does not answer: is it still running?"));
  }
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw failureOf(answer.status, document);
  }
  return document;
}

// In the user's language where the console said it, and as it came where somebody else did.
export const failureOf = (status, { message, causes }) => new CallFailed(status, said(message ?? `HTTP ${status}`), causesOf(causes));
export const causesOf = (causes) => causes?.map((cause) => ({ ...cause, message: said(cause.message) }));

export const read = (path) => call("GET", path);
export const write = (path, body) => call("POST", path, body);
export const vmPath = (namespace, name) => `vms/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

export function socketAddress(path) {
  const address = new URL(path, document.baseURI);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.hash = "";
  return address.href;
}

// The subprotocols that open a stream once; the ticket is never part of an address.
export async function streamProtocols(namespace, name, stream, takesOver = false) {
  const { ticket } = await write("tickets", { namespace, name, stream, takesOver });
  return [`ticket.kvedge.io.${ticket}`, "plain.kubevirt.io"];
}
