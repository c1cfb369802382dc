// A guest's screen by SPICE, with sound and USB, in a viewer of the user's own computer.

import { CallFailed, read, vmPath, write } from "./calls.js";
import { button, confirm, element, note } from "./dom.js";
import { t } from "./words/words.js";

const VIEWER_FILE = "application/x-virt-viewer";
// Whether the console runs on the user's own computer; asked once.
let isHere = null;

async function save(namespace, name, takesOver = false) {
  const vm = `${namespace}/${name}`;
  try {
    const { file, taken } = await write(`${vmPath(namespace, name)}/spice`, { takesOver });
    if (taken) {
      const question = t("Somebody else looks at the screen of {vm}. Take it from them?", { vm });
      if (await confirm(question, t("Take it over"))) await save(namespace, name, true);
      return;
    }
    const address = URL.createObjectURL(new Blob([file], { type: VIEWER_FILE }));
    element("a", { href: address, download: `${namespace}-${name}.vv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 0);
    note(t("The file for {vm} can be opened within a minute, once, on this computer", { vm }));
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
    note(error.message, true);
  }
}

// A button where a viewer of this computer reaches the guest through the console, else what to run there.
export async function spiceWay(namespace, name) {
  isHere ??= await read("ways").then(({ credential }) => !credential).catch(() => null);
  const command = ["kvedge spice", name, "-n", namespace].join(" ");
  return isHere === false
    ? element("span", {}, t("SPICE viewer: on your own computer,"), " ", element("code", {}, command))
    : button(t("SPICE viewer"), () => save(namespace, name));
}
