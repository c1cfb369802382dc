// A new VM: a form, and beside it the manifest that will be sent, which may be changed by hand.

import { CallFailed, causesOf, read, write } from "./calls.js";
import { button, element, note } from "./dom.js";
import { faultList, field, showFaults } from "./fields.js";
import { vmLink } from "./list_page.js";
import { said, t } from "./words/words.js";

const PAUSE = 250;
const OFFERED = { claim: "claims", dataSource: "dataSources", storageClass: "storageClasses", type: "types", os: "preferences", networks: "networks" };
// What is asked for by where the disk comes from.
const BY_SOURCE = { image: ["image", "disk", "storageClass"], claim: ["claim"], dataSource: ["dataSource", "disk", "storageClass"] };
const PARTS = [
  [t("What it is"), [
    { key: "namespace", label: t("Namespace") },
    { key: "name", label: t("Name"), about: t("Without one it gets a name that nobody has."), autofocus: true },
    { key: "runStrategy", label: t("When it runs"), kind: "select", value: "Always", options: [["Always", t("Always")], ["RerunOnFailure", t("Until its guest shuts down")], ["Manual", t("When it is started")], ["Halted", t("Not yet")], ["Once", t("Once")]] },
  ]],
  [t("Its disk"), [
    { key: "source", label: t("Disk from"), kind: "select", value: "image", options: [["image", t("an image or a URL")], ["claim", t("a claim that is there")], ["dataSource", t("a DataSource")]] },
    { key: "image", label: t("Image"), about: t("Of the box's store or a registry, such as local/debian:12; or an http(s) URL.") },
    { key: "claim", label: t("Claim") },
    { key: "dataSource", label: t("DataSource") },
    { key: "disk", label: t("Disk size"), about: t("Such as 20Gi: the image is copied to a disk that lasts. Without it, what the guest writes ends with its run.") },
    { key: "storageClass", label: t("Storage class"), about: t("The default one without it.") },
  ]],
  [t("Its size"), [
    { key: "type", label: t("Instance type"), about: t("Instead of CPUs and memory, such as u1.small.") },
    { key: "cpus", label: t("CPUs"), inputmode: "numeric", about: t("1 without it.") },
    { key: "memory", label: t("Memory"), about: t("Such as 2Gi; 1Gi without it.") },
    { key: "os", label: t("Preference"), about: t("For the guest's system, such as debian.") },
  ]],
  [t("Logging in"), [
    { key: "user", label: t("User"), about: t("cloud-init sets it up.") },
    { key: "sshKeys", label: t("SSH public keys"), kind: "textarea", rows: "3", about: t("One a line.") },
    { key: "password", label: t("Password"), type: "password", autocomplete: "new-password", about: t("It stands in the manifest as it is.") },
  ]],
  [t("Its networks"), [
    { key: "networks", label: t("More networks"), about: t("Besides the Pod network; with blanks between them.") },
  ]],
];

export function newPage(main) {
  let isOpen = true;
  let isByHand = false;
  let timer = 0;
  let asked = 0;
  // What is wrong with a field is told once its user has been there.
  const touched = new Set();
  const parts = PARTS.map(([title, all]) => [title, all.map((one) => field({ ...one, onchange: changed }))]);
  const fields = parts.flatMap(([, all]) => all);
  const byKey = Object.fromEntries(fields.map((one) => [one.key, one]));
  const yaml = field({ key: "yaml", label: t("Manifest"), kind: "textarea", rows: "30", class: "code", wrap: "off", onchange: changedByHand });
  const byHand = element("p", { hidden: true }, t("Changed by hand: the form does not change it any more."), " ", button(t("Make it anew from the form"), () => { isByHand = false; byHand.hidden = true; draw(); }));
  const faults = faultList();
  const state = element("span", { role: "status", class: "grow" });
  const buttons = [button(t("Check"), () => send("check")), button(t("Create"), () => send("create"), { class: "main" })];
  main.replaceChildren(
    element("h1", {}, t("New virtual machine")),
    element("div", { class: "columns" },
      element("div", {}, parts.map(([title, all]) => element("fieldset", {}, element("legend", {}, title), all.map(({ node }) => node)))),
      element("div", {}, byHand, yaml.node)),
    faults,
    element("div", { class: "bar" }, buttons, state));

  const values = () => Object.fromEntries(fields.map((one) => [one.key, one.value]));
  const all = [...fields, yaml];

  function showSource() {
    const wanted = BY_SOURCE[byKey.source.value];
    for (const key of Object.values(BY_SOURCE).flat()) byKey[key].node.hidden = !wanted.includes(key);
  }

  function changed(key) {
    touched.add(key);
    showSource();
    if (key === "namespace") offer();
    clearTimeout(timer);
    timer = setTimeout(draw, PAUSE);
  }

  function changedByHand() {
    isByHand = true;
    byHand.hidden = false;
    yaml.complain("");
  }

  // The manifest of the form; null when there is none.
  async function draw() {
    clearTimeout(timer);
    if (isByHand) return yaml.value;
    const mine = ++asked;
    try {
      const made = await write("new/manifest", values());
      made.causes = causesOf(made.causes);
      made.message = made.message && said(made.message);
      if (!isOpen || isByHand) return null;
      if (mine === asked) {
        yaml.input.value = made.yaml;
        const isTold = made.causes?.some((cause) => touched.has(cause.field)) ?? made.message;
        showFaults(isTold ? made : null, all, faults, (key) => touched.has(key));
      }
      return made.yaml || null;
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      if (isOpen) showFaults(error, all, faults);
      return null;
    }
  }

  async function send(step) {
    for (const { key } of fields) touched.add(key);
    for (const one of buttons) one.disabled = true;
    state.textContent = t("the server is asked …");
    try {
      const text = await draw();
      if (text !== null && !byKey.namespace.value.trim()) {
        throw new CallFailed(0, "", [{ field: "namespace", path: "", message: t("this is needed") }]);
      }
      if (text === null) {
        state.textContent = "";
        focusFault();
        return;
      }
      const place = encodeURIComponent(byKey.namespace.value.trim());
      await write(`new/check/${place}`, { yaml: text });
      state.textContent = t("the server takes it");
      showFaults(null, all, faults);
      if (step === "check") return;
      const made = await write(`new/create/${place}`, { yaml: text });
      note(t("{vm} was created", { vm: `${made.namespace}/${made.name}` }));
      location.hash = vmLink(made);
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      state.textContent = "";
      showFaults(error, all, faults);
      focusFault();
    } finally {
      for (const one of buttons) one.disabled = false;
    }
  }

  function focusFault() {
    main.querySelector("[aria-invalid]")?.focus();
  }

  async function offer() {
    const place = byKey.namespace.value.trim();
    if (!place) return;
    try {
      const found = await read(`new/choices/${encodeURIComponent(place)}`);
      for (const [key, names] of Object.entries(OFFERED)) byKey[key].offer(found[names]);
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
    }
  }

  async function begin() {
    showSource();
    try {
      byKey.namespace.input.value = (await read("new/defaults")).namespace;
    } catch (error) {
      note(error.message, true);
    }
    offer();
    // Whoever has been quicker has asked already.
    if (asked === 0) draw();
  }

  begin();
  return () => { isOpen = false; clearTimeout(timer); };
}
