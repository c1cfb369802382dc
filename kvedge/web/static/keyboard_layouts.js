// Which keys of a keyboard make which character, by layout. QEMU is told of keys, and the guest makes characters of
// them: so what is to be typed has to be taken apart by the layout that the guest has.

const CODES = [
  "Backquote", ..."1234567890".split("").map((digit) => `Digit${digit}`), "Minus", "Equal",
  ..."QWERTYUIOP".split("").map((letter) => `Key${letter}`), "BracketLeft", "BracketRight",
  ..."ASDFGHJKL".split("").map((letter) => `Key${letter}`), "Semicolon", "Quote", "Backslash",
  "IntlBackslash", ..."ZXCVBNM".split("").map((letter) => `Key${letter}`), "Comma", "Period", "Slash",
];
// One character for each of these keys: alone, with Shift, with AltGr; a blank for none. `dead` are those that make a
// character only once a blank follows. After xkeyboard-config's symbols of these names.
const LAYOUTS = {
  us: { name: "US", rows: [
    "`1234567890-=qwertyuiop[]asdfghjkl;'\\ zxcvbnm,./",
    "~!@#$%^&*()_+QWERTYUIOP{}ASDFGHJKL:\"| ZXCVBNM<>?",
  ] },
  gb: { name: "UK", rows: [
    "`1234567890-=qwertyuiop[]asdfghjkl;'#\\zxcvbnm,./",
    "¬!\"£$%^&*()_+QWERTYUIOP{}ASDFGHJKL:@~|ZXCVBNM<>?",
    "    €",
  ] },
  de: { name: "Deutsch", dead: "^´`", rows: [
    "^1234567890ß´qwertzuiopü+asdfghjklöä#<yxcvbnm,.-",
    "°!\"§$%&/()=?`QWERTZUIOPÜ*ASDFGHJKLÖÄ'>YXCVBNM;:_",
    "  ²³   {[]}\\ @ €        ~            |      µ",
  ] },
  fr: { name: "Français", dead: "^¨", rows: [
    "²&é\"'(-è_çà)=azertyuiop^$qsdfghjklmù*<wxcvbn,;:!",
    " 1234567890°+AZERTYUIOP¨£QSDFGHJKLM%µ>WXCVBN?./§",
    "   #{[|`\\ @]}  €",
  ] },
};
export const LAYOUT_NAMES = Object.entries(LAYOUTS).map(([key, { name }]) => [key, name]);
const SHIFT = { code: "ShiftLeft", keysym: 0xffe1 };
const ALT_GR = { code: "AltRight", keysym: 0xfe03 };
const HELD = [[], [SHIFT], [ALT_GR]];
const SPACE = { code: "Space", keysym: 0x20, held: [] };
const PLAIN = { "\n": { code: "Enter", keysym: 0xff0d, held: [] }, "\t": { code: "Tab", keysym: 0xff09, held: [] }, " ": SPACE };

// X11's number of a character: Latin-1 has its own, others Unicode's.
const keysymOf = (character) => {
  const point = character.codePointAt(0);
  return point < 0x100 ? point : 0x1000000 | point;
};

// The keys for a text, in order, and the characters for which the layout has none.
export function keysFor(text, layout) {
  const { rows, dead = "" } = LAYOUTS[layout];
  const keys = [];
  const missing = new Set();
  for (const character of text.replaceAll("\r\n", "\n").replaceAll("\r", "\n")) {
    const level = rows.findIndex((row) => row.includes(character));
    if (PLAIN[character]) keys.push(PLAIN[character]);
    else if (level < 0) missing.add(character);
    else {
      keys.push({ code: CODES[rows[level].indexOf(character)], keysym: keysymOf(character), held: HELD[level] });
      if (dead.includes(character)) keys.push(SPACE);
    }
  }
  return { keys, missing: [...missing].join(" ") };
}

const letter = (name) => ({ code: `Key${name}`, keysym: name.toLowerCase().charCodeAt(0) });
const named = (code, keysym) => ({ code, keysym });
const CTRL = named("ControlLeft", 0xffe3);
const ALT = named("AltLeft", 0xffe9);
const SUPER = named("MetaLeft", 0xffeb);
const functionKey = (number) => named(`F${number}`, 0xffbd + number);
// What a browser or its desktop keeps for itself: by name, the keys in the order in which they go down.
export const COMBINATIONS = {
  "Ctrl-Alt-Del": [CTRL, ALT, named("Delete", 0xffff)],
  ...Object.fromEntries([1, 2, 3, 4, 5, 6, 7].map((number) => [`Ctrl-Alt-F${number}`, [CTRL, ALT, functionKey(number)]])),
  "Ctrl-Alt-Backspace": [CTRL, ALT, named("Backspace", 0xff08)],
  "Ctrl-Shift-Esc": [CTRL, SHIFT, named("Escape", 0xff1b)],
  "Alt-Tab": [ALT, named("Tab", 0xff09)],
  "Alt-F4": [ALT, functionKey(4)],
  "Win": [SUPER],
  "Win-L": [SUPER, letter("L")],
  "Win-R": [SUPER, letter("R")],
  "Menu": [named("ContextMenu", 0xff67)],
  "Print": [named("PrintScreen", 0xff61)],
  "F11": [functionKey(11)],
};
