// What can be done to a VM in its state, and doing it after the user has agreed.

import { CallFailed, vmPath, write } from "./calls.js";
import { confirm, note } from "./dom.js";
import { plural, t } from "./words/words.js";

export const ACTIONS = [
  { name: "start", text: t("Start"), asks: false, fits: (row) => row.kind === "VirtualMachine" && ["Stopped", "CrashLoopBackOff"].includes(row.status) },
  { name: "stop", text: t("Stop"), asks: true, fits: (row) => row.kind === "VirtualMachine" && row.status !== "Stopped" },
  { name: "restart", text: t("Restart"), asks: true, fits: (row) => row.kind === "VirtualMachine" && ["Running", "Paused"].includes(row.status) },
  { name: "pause", text: t("Pause"), asks: true, fits: (row) => row.status === "Running" },
  { name: "unpause", text: t("Unpause"), asks: false, fits: (row) => row.status === "Paused" },
];

const AT_ONCE = 4;

export async function act(action, rows) {
  const names = rows.slice(0, 5).map((row) => `${row.namespace}/${row.name}`).join(", ") + (rows.length > 5 ? " …" : "");
  const what = rows.length === 1 ? names : `${plural(rows.length, "{count} VM", "{count} VMs")} (${names})`;
  if ((action.asks || rows.length > 1) && !(await confirm(t("{act} {what}?", { act: action.text, what }), action.text))) return;
  const left = [...rows];
  const work = async () => {
    for (let row = left.shift(); row; row = left.shift()) {
      try {
        await write(`${vmPath(row.namespace, row.name)}/${action.name}`);
        note(t("{act}: {vm} was asked to", { act: action.text, vm: `${row.namespace}/${row.name}` }));
      } catch (error) {
        if (!(error instanceof CallFailed)) throw error;
        note(`${action.text} ${row.namespace}/${row.name}: ${error.message}`, true);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}
