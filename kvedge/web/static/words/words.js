// What the pages say, in the user's language. An English sentence is its own key; a catalogue says what stands for it.

// Each is loaded by those who read it alone. Another language is a row here, and its two files.
const CATALOGUES = { de: [() => import("./words_de.js"), () => import("./said_de.js")] };
export const LANGUAGES = [["en", "English"], ["de", "Deutsch"]];
const ENGLISH = "en";
// No sentence of ours is longer; a longer text is not compared with all of them.
const MOST_SAID = 400;
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];

const isKnown = (code) => LANGUAGES.some(([known]) => known === code);
const base = (tag) => tag.toLowerCase().split("-")[0];

// A cookie: `kvedge web` has another port each time, and what else browsers keep is kept by port.
const kept = () => document.cookie.match(/(?:^|; )kvedge-language=(\w+)/)?.[1];

// It counts from the next load on.
export function keepLanguage(code) {
  document.cookie = `kvedge-language=${code}; path=/; max-age=31536000; samesite=strict`;
}

const chosen = [kept(), ...navigator.languages.map(base)].find(isKnown) ?? ENGLISH;
// No page is made before its words are there: so tables of pages may hold words.
const loaded = await Promise.all((CATALOGUES[chosen] ?? []).map((load) => load())).catch(() => null);
export const language = loaded ? chosen : ENGLISH;
const [words, told] = [0, 1].map((place) => new Map(Object.entries(loaded?.[place]?.default ?? {})));
// With the country, where the browser tells it.
const locale = navigator.languages.find((tag) => base(tag) === language) ?? language;
const rules = new Intl.PluralRules(language);

// One for each shape: a table has many numbers, and to make a format takes longer than to use it.
const formats = new Map();

export function number(value, options = {}) {
  const shape = JSON.stringify(options);
  if (!formats.has(shape)) formats.set(shape, new Intl.NumberFormat(locale, options));
  return formats.get(shape).format(value);
}

export const percent = (value) => number(value / 100, { style: "percent" });
export const moment = (value) => new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" }).format(value);
export const clock = (value) => new Intl.DateTimeFormat(locale, { timeStyle: "medium" }).format(value);

export function bytes(value) {
  let unit = 0;
  for (; value >= 1024 && unit < BYTES.length - 1; unit++) value /= 1024;
  const digits = value < 10 && unit > 0 ? 1 : 0;
  return `${number(value, { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${BYTES[unit]}`;
}

export function age(created) {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(created)) / 1000));
  if (!Number.isFinite(seconds)) return "-";
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? UNITS.at(-1);
  return number(Math.floor(seconds / size), { style: "unit", unit, unitDisplay: "narrow" });
}

const textOf = (value) => (typeof value === "number" ? number(value) : String(value ?? ""));
const fill = (text, places) => text.replace(/\{(\w+)\}/g, (whole, name) => (Object.hasOwn(places, name) ? textOf(places[name]) : whole));

// A sentence with what stands in its {places}.
export const t = (text, places = {}) => fill(words.get(text) ?? text, places);

export const ts = (...texts) => texts.map((text) => t(text));

// The one of both that goes with the number; the catalogue has the forms of its language below the second.
export function plural(count, one, other, places = {}) {
  const form = rules.select(count);
  const known = words.get(other) ?? { one, other };
  return fill(known[form] ?? known.other, { count, ...places });
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
// What the console's own program says with names and numbers in it; what stands at {why} is a sentence of its own.
const patterns = [...told].filter(([key]) => key.includes("{")).map(([key, text]) => [
  new RegExp(`^${key.split(/\{(\w+)\}/).map((part, index) => (index % 2 ? `(?<${part}>.+?)` : escaped(part))).join("")}$`, "s"), text]);

// What the console's own program says; what the API server, guests and users wrote stays as it came.
export function said(text) {
  const known = told.get(text);
  if (known || text.length > MOST_SAID) return known ?? text;
  for (const [pattern, words] of patterns) {
    const found = pattern.exec(text)?.groups;
    if (found) return fill(words, Object.fromEntries(Object.entries(found).map(([name, part]) => [name, name.startsWith("why") ? said(part) : part])));
  }
  return text;
}
