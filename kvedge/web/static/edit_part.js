// The YAML of an object: read, and where the user may, changed. A change is checked and shown before it is made.

import { CallFailed, read, write } from "./calls.js";
import { button, element, note } from "./dom.js";
import { faultList, field, showFaults } from "./fields.js";
import { t } from "./words/words.js";

const SIGNS = { "+": "ins", "-": "del" };

// `path` is where it is read and written, `called` what it is told by; `changed` is called after a change.
export function editPart(path, called, mayEdit, changed = () => {}) {
  const edit = button(t("Edit"), begin, { hidden: true });
  const bar = element("div", { class: "bar" }, edit);
  const shown = element("div");
  const part = element("details", { ontoggle: show }, element("summary", {}, "YAML"), bar, shown);
  let isEditing = false;

  async function show() {
    if (!part.open || isEditing) return;
    try {
      const [{ yaml }, may] = await Promise.all([read(`${path}/manifest`), mayEdit()]);
      if (isEditing) return;
      edit.hidden = !may;
      bar.replaceChildren(edit);
      shown.replaceChildren(element("pre", { tabindex: "0", role: "region", "aria-label": "YAML" }, yaml));
    } catch (error) {
      note(error.message, true);
    }
  }

  async function begin() {
    let before;
    try {
      before = (await read(`${path}/edit`)).yaml;
    } catch (error) {
      note(error.message, true);
      return;
    }
    isEditing = true;
    const yaml = field({ key: "yaml", label: t("Manifest"), kind: "textarea", rows: "30", class: "code", wrap: "off", value: before, onchange: forget });
    const faults = faultList();
    const changes = element("div");
    const check = button(t("Show the changes"), () => ask("check"));
    const apply = button(t("Apply"), () => ask("apply"), { class: "main", disabled: true });
    bar.replaceChildren(check, apply, button(t("Discard"), end));
    shown.replaceChildren(faults, changes, yaml.node);
    yaml.input.focus();

    // What was checked is what is applied: after another change it is checked again.
    function forget() {
      apply.disabled = true;
      changes.replaceChildren();
    }

    async function ask(step) {
      check.disabled = apply.disabled = true;
      const text = yaml.value;
      try {
        const answer = await write(`${path}/edit/${step}`, { yaml: text });
        showFaults(null, [yaml], faults);
        if (step === "apply") {
          note(t("{object} was changed", { object: called }));
          changed();
          end();
          return;
        }
        if (text !== yaml.value) return;
        changes.replaceChildren(...difference(answer.lines));
        apply.disabled = answer.lines.length === 0;
        if (!apply.disabled) apply.focus();
      } catch (error) {
        if (!(error instanceof CallFailed)) throw error;
        showFaults(error, [yaml], faults);
      } finally {
        check.disabled = false;
      }
    }
  }

  function end() {
    isEditing = false;
    show().then(() => edit.focus());
  }

  return part;
}

function difference(lines) {
  if (lines.length === 0) return [element("p", { role: "status" }, t("The server would change nothing."))];
  return [
    element("p", { role: "status" }, t("The server would make these changes:")),
    element("pre", { class: "changes", tabindex: "0", role: "region", "aria-label": t("Changes") },
      lines.map(([sign, text]) => element(SIGNS[sign] ?? "span", {}, `${sign === "@" ? "⋯" : sign} ${text}\n`))),
  ];
}
