// What can be done to a VM in its state, and doing it after the user has agreed.

import { CallFailed, vmPath, write } from "./calls.js";
import { confirm, note } from "./dom.js";

export const ACTIONS = [
  { name: "start", text: "Start", asks: false, fits: (row) => row.kind === "VirtualMachine" && ["Stopped", "CrashLoopBackOff"].includes(row.status) },
  { name: "stop", text: "Stop", asks: true, fits: (row) => row.kind === "VirtualMachine" && row.status !== "Stopped" },
  { name: "restart", text: "Restart", asks: true, fits: (row) => row.kind === "VirtualMachine" && ["Running", "Paused"].includes(row.status) },
  { name: "pause", text: "Pause", asks: true, fits: (row) => row.status === "Running" },
  { name: "unpause", text: "Unpause", asks: false, fits: (row) => row.status === "Paused" },
];

const AT_ONCE = 4;

export async function act(action, rows) {
  const names = rows.slice(0, 5).map((row) => `${row.namespace}/${row.name}`).join(", ") + (rows.length > 5 ? " …" : "");
  const what = rows.length === 1 ? names : `${rows.length} VMs (${names})`;
  if ((action.asks || rows.length > 1) && !(await confirm(`${action.text} ${what}?`, action.text))) return;
  const left = [...rows];
  const work = async () => {
    for (let row = left.shift(); row; row = left.shift()) {
      try {
        await write(`${vmPath(row.namespace, row.name)}/${action.name}`);
        note(`${action.text}: ${row.namespace}/${row.name} was asked to`);
      } catch (error) {
        if (!(error instanceof CallFailed)) throw error;
        note(`${action.text} ${row.namespace}/${row.name}: ${error.message}`, true);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}
