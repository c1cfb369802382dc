// What a guest's agent says: its system, who is logged in, its file systems. All of it is the guest's word.

import { vmPath } from "./calls.js";
import { element, table } from "./dom.js";
import { openingPart } from "./history_part.js";
import { bytes, moment, t, ts } from "./words/words.js";

const FACTS = [[t("System"), "system"], [t("Kernel"), "kernel"], [t("Host name"), "host"], [t("Time zone"), "timezone"], [t("Agent"), "agent"]];
const MILLI = 1000;
const size = (value) => (value === null ? "" : bytes(value));

export const guestPart = (namespace, name) => openingPart(t("What the guest says"), `${vmPath(namespace, name)}/agent`, ({ facts, users, fileSystems }) => [
  element("dl", {}, FACTS.filter(([, key]) => facts[key]).flatMap(([word, key]) => [element("dt", {}, word), element("dd", {}, facts[key])])),
  element("h3", {}, t("Logged in")),
  users.length ? table(t("Logged in"), ts("User", "Domain", "Since"), users.map((one) => [one.name, one.domain, one.since === null ? "" : moment(one.since * MILLI)])) : element("p", {}, t("nobody")),
  element("h3", {}, t("File systems")),
  fileSystems.length ? table(t("File systems"), ts("Mounted at", "Disk", "Type", "Used", "Size"), fileSystems.map((one) => [one.place, one.name, one.type, size(one.used), size(one.total)])) : element("p", {}, t("none")),
]);
