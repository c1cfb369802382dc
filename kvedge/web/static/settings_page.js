// The settings of the whole site: the KubeVirt object in words, and as YAML that may be changed.

import { CallFailed, read } from "./calls.js";
import { element, table } from "./dom.js";
import { editPart } from "./edit_part.js";
import { said, t, ts } from "./words/words.js";

export function settingsPage(main) {
  let isOpen = true;
  const shown = element("div", {}, element("p", { role: "status" }, "…"));
  main.replaceChildren(element("h1", {}, t("Settings")), shown);
  let manifest = null;

  async function look() {
    try {
      const found = await read("settings");
      if (!isOpen) return;
      shown.replaceChildren(...parts(found));
      if (!manifest) {
        const path = `settings/${encodeURIComponent(found.namespace)}/${encodeURIComponent(found.name)}`;
        manifest = editPart(path, `${found.namespace}/${found.name}`, async () => found.mayEdit, look);
        main.append(manifest);
      }
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (isOpen) shown.replaceChildren(element("p", { class: "bad" }, error.message));
    }
  }

  look();
  return () => { isOpen = false; };
}

function parts(found) {
  const facts = [[t("Object"), `${found.namespace}/${found.name}`], [t("Phase"), found.phase], [t("Version"), found.version]].filter(([, value]) => value);
  return [
    element("dl", {}, facts.flatMap(([word, value]) => [element("dt", {}, word), element("dd", {}, value)])),
    found.mayEdit ? element("p", {}, t("What is not here is as by default. To change a setting, open the YAML.")) : element("p", {}, t("What is not here is as by default. You may not change the settings.")),
    found.rows.length ? table(t("Settings"), ts("Setting", "Value", "Field"), found.rows.map((row) => [said(row.words), said(row.value), row.path])) : element("p", {}, t("All settings are as by default.")),
    ...(found.more ? [element("p", {}, t("There are more: the YAML has them."))] : []),
    element("h2", {}, t("Conditions")),
    found.conditions.length ? table(t("Conditions"), ts("Type", "Status", "Message"), found.conditions.map((one) => [one.type, one.status, one.message])) : element("p", {}, t("none")),
  ];
}
