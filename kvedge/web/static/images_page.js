// Images: DataVolumes and DataSources as they come to be, and the upload of a file into a new disk.

import { read } from "./calls.js";
import { tablePart } from "./cluster_pages.js";
import { button, confirm, element } from "./dom.js";
import { faultList, field, showFaults } from "./fields.js";
import { Upload, allUploads, onUploads, sizeFor } from "./uploads.js";
import { age, bytes, percent, said, t, ts } from "./words/words.js";

const done = ({ percent: part, kind, name }) => part === null ? "" : element("span", {},
  element("progress", { max: 100, value: part, "aria-label": `${kind} ${name}` }), ` ${percent(part)}`);

const images = tablePart(t("Images"), "images", t("No DataVolumes and no DataSources."),
  ts("Namespace", "Name", "Kind", "State", "Done", "From", "Size", "Age", "Message"),
  (one) => [one.namespace, one.name, one.kind, element("span", { class: one.trouble ? "bad" : "" }, one.kind === "DataSource" ? said(one.state) : one.state), done(one), one.from, one.size, one.created ? age(one.created) : "", one.message]);

export function imagesPage(main) {
  const list = images();
  const form = uploadForm();
  const shown = uploadsShown();
  main.replaceChildren(element("h1", {}, t("Images")), form.node, shown.node, list.node);
  return () => { list.leave(); form.leave(); shown.leave(); };
}

function uploadForm() {
  let file = null;
  let asked = 0;
  const chosen = element("span", { role: "status" }, t("No file is chosen."));
  const input = element("input", { type: "file", id: "image-file", onchange: () => choose(input.files[0]) });
  const [namespace, name, size, storageClass] = [
    field({ key: "namespace", label: t("Namespace"), onchange: askRight }),
    field({ key: "name", label: t("Name"), about: t("Of the new disk; one that waits for its upload goes on.") }),
    field({ key: "size", label: t("Disk size"), about: t("Such as 10Gi; at least what the image holds.") }),
    field({ key: "storageClass", label: t("Storage class"), about: t("The default one without it.") }),
  ];
  const fields = [namespace, name, size, storageClass];
  const offer = element("input", { type: "checkbox", id: "image-offer", checked: true });
  const faults = faultList();
  const send = button(t("Upload"), begin, { class: "main" });
  const area = element("div", { class: "drop" }, element("label", { for: "image-file" }, t("Image: qcow2 or raw, also packed; chosen, or dropped here")), input, chosen);
  const node = element("details", {}, element("summary", {}, t("Upload an image")), faults, area, fields.map((one) => one.node),
    element("div", { class: "bar" }, offer, element("label", { for: "image-offer" }, t("Offer it to new VMs, as a DataSource of that name"))), element("div", { class: "bar" }, send));

  // Anywhere on the page: a file that misses the area must not replace the page.
  const isOfFiles = (event) => event.dataTransfer.types.includes("Files");
  const over = (event) => { if (isOfFiles(event)) { event.preventDefault(); area.classList.add("over"); } };
  const away = () => area.classList.remove("over");
  const dropped = (event) => {
    away();
    if (!isOfFiles(event)) return;
    event.preventDefault();
    node.open = true;
    input.files = event.dataTransfer.files;
    choose(input.files[0]);
  };
  const listening = { dragover: over, dragleave: away, drop: dropped };
  for (const [what, listener] of Object.entries(listening)) addEventListener(what, listener);

  async function choose(found) {
    file = found ?? null;
    chosen.textContent = file ? `${file.name}, ${bytes(file.size)}` : t("No file is chosen.");
    if (!file) return;
    if (!name.value) name.input.value = nameOf(file.name);
    size.input.value = (await sizeFor(file).catch(() => "")) || size.value;
  }

  async function askRight() {
    const mine = ++asked;
    if (!namespace.value.trim()) return;
    const { mayUpload } = await read(`images/${encodeURIComponent(namespace.value.trim())}/right`).catch(() => ({ mayUpload: true }));
    if (mine !== asked) return;
    send.disabled = !mayUpload;
    namespace.complain(mayUpload ? "" : t("you may not upload there"));
  }

  function begin() {
    const values = Object.fromEntries(fields.map((one) => [one.key, one.value.trim()]));
    const causes = ["namespace", "name", "size"].filter((key) => !values[key]).map((key) => ({ field: key, message: t("this is needed") }));
    const same = allUploads().filter((one) => one.namespace === values.namespace && one.name === values.name);
    if (!file) causes.push({ field: "", message: t("choose a file") });
    if (same.some((one) => one.isActive)) causes.push({ field: "name", message: t("an upload into it is under way") });
    showFaults(causes.length ? { causes } : null, fields, faults)?.input.focus();
    if (causes.length) return;
    for (const one of same) one.forget();
    new Upload(file, { ...values, offer: offer.checked }).run();
    node.open = false;
  }

  read("new/defaults").then((known) => { namespace.input.value ||= known.namespace; return askRight(); }).catch(() => {});
  return { node, leave: () => { for (const [what, listener] of Object.entries(listening)) removeEventListener(what, listener); } };
}

// A name as objects have it, of a file's name.
const nameOf = (text) => text.toLowerCase().replace(/\.(qcow2|img|raw|iso|gz|xz|zst)(\.(gz|xz|zst))?$/, "").replace(/[^a-z0-9]+/g, "-").slice(0, 63).replace(/^-+|-+$/g, "");

function uploadsShown() {
  const node = element("div");
  const lines = new Map();
  const forget = onUploads(draw);

  function draw() {
    const now = allUploads();
    for (const [one, line] of lines) if (!now.includes(one)) { line.node.remove(); lines.delete(one); }
    for (const one of now) {
      if (!lines.has(one)) { lines.set(one, uploadLine(one)); node.append(lines.get(one).node); }
      lines.get(one).draw();
    }
  }

  draw();
  return { node, leave: forget };
}

function uploadLine(one) {
  const called = `${one.namespace}/${one.name}`;
  const bar = element("progress", { max: 100, value: 0, "aria-label": t("Upload of {disk}", { disk: called }) });
  const far = element("span");
  const state = element("span", { role: "status" });
  const again = button(t("Try again"), () => one.run(), { "aria-label": t("Try the upload of {disk} again", { disk: called }) });
  const cancel = button(t("Cancel"), stop, { "aria-label": t("Cancel the upload of {disk}", { disk: called }) });
  const forget = button(t("Forget"), () => one.forget(), { "aria-label": t("Forget the upload of {disk}", { disk: called }) });
  const node = element("p", { class: "bar" }, element("strong", {}, called), bar, far, state, again, cancel, forget);

  let isLost = false;

  async function stop() {
    if (await confirm(t("Cancel the upload of {disk}, and delete its DataVolume?", { disk: called }), t("Delete"))) await one.cancel();
  }

  function draw() {
    bar.value = one.file.size ? Math.floor(100 * one.sent / one.file.size) : 0;
    far.textContent = t("{sent} of {size}", { sent: bytes(one.sent), size: bytes(one.file.size) });
    if (state.textContent !== one.state) state.textContent = one.state;
    state.className = one.isFailed ? "bad" : "";
    const held = [again, cancel].find((each) => each === document.activeElement);
    again.hidden = one.isActive || one.isCancelled || !one.isFailed;
    cancel.hidden = one.isCancelled ? !one.isFailed : !one.isActive && !(one.isFailed && one.isMade);
    forget.hidden = one.isActive || (one.isCancelled && one.isMade && !one.isFailed);
    // The keyboard's place goes on to what can be done next.
    isLost ||= Boolean(held?.hidden);
    const next = [cancel, forget].find((each) => !each.hidden);
    if (!isLost || !next) return;
    isLost = false;
    if ([document.body, again, cancel].includes(document.activeElement)) next.focus();
  }

  return { node, draw };
}
