// Asks the server for a change, and tells its user what came of it.

import { CallFailed, write } from "./calls.js";
import { note } from "./dom.js";

// Whether it was taken.
export async function ask(path, body, done) {
  try {
    await write(path, body);
    note(done);
    return true;
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
    note(error.message, true);
    return false;
  }
}
