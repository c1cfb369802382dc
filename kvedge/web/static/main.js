// Signs in with the link's secret, then shows the page that the address names.

import { read, write } from "./calls.js";
import { alarmsPage, networksPage, nodesPage, tasksPage, volumesPage } from "./cluster_pages.js";
import { consolePage } from "./console_page.js";
import { button, element } from "./dom.js";
import { imagesPage } from "./images_page.js";
import { listPage } from "./list_page.js";
import { Live } from "./live.js";
import { newPage } from "./new_page.js";
import { overviewPage } from "./overview_page.js";
import { screenPage } from "./screen_page.js";
import { settingsPage } from "./settings_page.js";
import { signInPage } from "./sign_in_page.js";
import { usersPage } from "./users_page.js";
import { vmPage } from "./vm_page.js";
import { LANGUAGES, keepLanguage, language, t } from "./words/words.js";

const main = document.getElementById("main");
const places = document.getElementById("places");
const live = new Live();
// Pages by the first part of the address, those of one VM by what follows its name.
const PLACES = { "": [t("Virtual machines"), listPage], overview: [t("Overview"), overviewPage], new: [t("New VM"), newPage], nodes: [t("Nodes"), nodesPage], volumes: [t("Volumes"), volumesPage], images: [t("Images"), imagesPage], networks: [t("Networks"), networksPage], tasks: [t("Tasks"), tasksPage], alarms: [t("Alarms"), alarmsPage], settings: [t("Settings"), settingsPage], users: [t("Users"), usersPage] };
const PAGES = { "": vmPage, console: consolePage, screen: screenPage };
const UNAUTHORIZED = 401;
let leave = () => {};

function show() {
  // The link to the content is no page.
  if (location.hash === "#main") return;
  leave();
  leave = () => {};
  const [, kind, namespace, name, page] = location.hash.split("/").map(decodeURIComponent);
  if (kind === "vm" && name && PAGES[page ?? ""]) {
    document.title = `${name} · kvedge`;
    leave = PAGES[page ?? ""](main, live, namespace, name);
  } else {
    const [title, page] = PLACES[kind ?? ""] ?? PLACES[""];
    document.title = kind ? `${title} · kvedge` : "kvedge";
    leave = page(main, live);
  }
  for (const link of places.children) {
    link.hash === (location.hash || "#/") ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  scrollTo(0, 0);
  main.focus();
}

// What the page itself holds, and the choice of another language.
function nameParts() {
  document.documentElement.lang = language;
  document.querySelector(".skip").textContent = t("Skip to the content");
  document.getElementById("sign-out").textContent = t("Sign out");
  places.setAttribute("aria-label", t("Pages"));
  const others = document.getElementById("languages");
  others.setAttribute("aria-label", t("Language"));
  // Each is called in its own words. No list to choose from: the arrow keys would load the page anew at each step.
  others.replaceChildren(...LANGUAGES.filter(([code]) => code !== language)
    .map(([code, name]) => button(name, () => { keepLanguage(code); location.reload(); }, { lang: code })));
}

async function begin() {
  nameParts();
  const secret = location.hash.startsWith("#sign-in=") ? location.hash.slice("#sign-in=".length) : "";
  try {
    if (secret) {
      // Before anything else: it must not stay in the address and the history.
      history.replaceState(null, "", location.pathname);
      await write("sign-in", { secret });
    }
    const { server } = await read("who");
    document.getElementById("server").textContent = server;
  } catch (error) {
    const ways = error.status === UNAUTHORIZED ? await read("ways").catch(() => ({})) : {};
    ways.credential ? signInPage(main) : main.replaceChildren(element("h1", {}, t("Not signed in")), element("p", {}, error.message));
    return;
  }
  places.append(...Object.entries(PLACES).map(([kind, [title]]) => element("a", { href: `#/${kind}` }, title)));
  const out = document.getElementById("sign-out");
  out.hidden = false;
  out.addEventListener("click", async () => { live.stop(); await write("sign-out"); location.reload(); });
  live.onChange(() => { document.getElementById("state").textContent = live.state; });
  live.start();
  addEventListener("hashchange", show);
  show();
}

begin();
