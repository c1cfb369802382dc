// What the user may do in a namespace, and who has KubeVirt's roles there: given and taken away where they may.

import { CallFailed, read, write } from "./calls.js";
import { button, confirm, element, note, table } from "./dom.js";
import { faultList, field, showFaults } from "./fields.js";
import { said, t, ts } from "./words/words.js";

const KINDS = { User: t("a user"), Group: t("a group"), ServiceAccount: t("a ServiceAccount") };

export function usersPage(main) {
  let isOpen = true;
  let asked = 0;
  // It stays while what is above it is read again: so does what was typed.
  let form = { path: "", node: null };
  const namespace = field({ key: "namespace", label: t("Namespace") });
  const state = element("p", { role: "status" });
  const shown = element("div");
  main.replaceChildren(element("h1", {}, t("Users")),
    element("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); look(); } }, namespace.node, element("button", { type: "submit" }, t("Show"))), state, shown);

  const place = () => `access/${encodeURIComponent(namespace.value.trim())}`;

  async function look() {
    const mine = ++asked;
    state.textContent = "";
    try {
      const found = await read(place());
      if (!isOpen || mine !== asked) return;
      const [path, where] = [place(), namespace.value.trim()];
      shown.replaceChildren(...parts(found, path, where));
      if (form.path === path) return;
      form.node?.remove();
      form = { path, node: found.mayGive ? giveForm(found, path, where) : null };
      if (form.node) main.append(form.node);
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (isOpen && mine === asked) { shown.replaceChildren(); form.node?.remove(); form = { path: "", node: null }; state.textContent = error.message; }
    }
  }

  async function take(path, where, row) {
    if (!(await confirm(t("Take {role} in {namespace} away from {name}?", { role: row.role, namespace: where, name: row.name }), t("Take away")))) return;
    try {
      await write(`${path}/take`, { kind: row.kind, name: row.name, binding: row.binding });
      note(t("{name} has lost {role} in {namespace}", { name: row.name, role: row.role, namespace: where }));
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      note(error.message, true);
    }
    look();
  }

  function giveForm(found, path, where) {
    const kind = field({ key: "kind", label: t("Give it to"), kind: "select", value: found.kinds[0], options: found.kinds.map((one) => [one, KINDS[one] ?? one]) });
    const name = field({ key: "name", label: t("Name"), about: t("As the API server knows it; a ServiceAccount of another namespace as NAMESPACE/NAME.") });
    const role = field({ key: "role", label: t("Role"), kind: "select", value: found.roles[0], options: found.roles.map((one) => [one, one]) });
    const faults = faultList();
    async function give() {
      try {
        await write(`${path}/give`, { kind: kind.value, name: name.value.trim(), role: role.value });
        showFaults(null, [kind, name, role], faults);
        note(t("{name} has {role} in {namespace}", { name: name.value.trim(), role: role.value, namespace: where }));
        look();
      } catch (error) {
        if (!(error instanceof CallFailed)) throw error;
        showFaults(error, [kind, name, role], faults)?.input.focus();
      }
    }
    return element("fieldset", {}, element("legend", {}, t("Give a role")), faults, kind.node, name.node, role.node, element("div", { class: "bar" }, button(t("Give"), give, { class: "main" })));
  }

  function parts(found, path, where) {
    const rows = found.rows.map((row) => [row.kind, row.name, row.role, row.binding,
      (row.isShared ? found.mayTakeShared : found.mayTake) && row.isPlain ? button(t("Take away"), () => take(path, where, row), { "aria-label": t("Take {role} away from {name}", { role: row.role, name: row.name }) }) : ""]);
    return [
      element("h2", {}, t("What you may do in {namespace}", { namespace: where })),
      found.user ? element("p", {}, t("You are {user}.", { user: found.user })) : "",
      table(t("Your rights"), ts("Act", "Allowed"), found.rights.map(({ words, may }) => [said(words), may ? t("yes") : t("no")])),
      element("h2", {}, t("Who has KubeVirt's roles in {namespace}", { namespace: where })),
      found.isSeen
        ? rows.length ? table(t("Roles"), ts("Kind", "Name", "Role", "RoleBinding", "Acts"), rows) : element("p", {}, t("nobody, by a RoleBinding of this namespace"))
        : element("p", {}, t("You may not see this.")),
      found.more ? element("p", {}, t("There are more: see kubectl.")) : "",
    ];
  }

  read("new/defaults").then((known) => { if (isOpen) { namespace.input.value ||= known.namespace; look(); } }).catch(() => {});
  return () => { isOpen = false; };
}
