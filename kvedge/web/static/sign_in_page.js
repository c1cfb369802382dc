// On a box: a token or a kubeconfig is pasted, and exchanged for a session. It stays in no field, address or storage.

import { CallFailed, write } from "./calls.js";
import { element } from "./dom.js";
import { field } from "./fields.js";
import { t } from "./words/words.js";

export function signInPage(main) {
  const credential = field({
    key: "credential", label: t("Token or kubeconfig"), kind: "textarea", rows: "6",
    about: t("You can do here what the token may do. Of a kubeconfig its token alone is used."),
  });
  const send = element("button", { type: "submit", class: "main" }, t("Sign in"));
  const form = element("form", { novalidate: true, onsubmit: submit }, credential.node, element("div", { class: "bar" }, send));

  async function submit(event) {
    event.preventDefault();
    send.disabled = true;
    credential.complain("");
    try {
      await write("sign-in", { credential: credential.value });
      credential.input.value = "";
      location.reload();
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      credential.complain(error.message);
      credential.input.focus();
    } finally {
      send.disabled = false;
    }
  }

  document.title = `${t("Sign in")} · kvedge`;
  main.replaceChildren(element("h1", {}, t("Sign in")), form);
  credential.input.focus();
}
