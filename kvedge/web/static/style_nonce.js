// xterm.js makes style elements and knows no nonce: each gets the page's before it is filled.

const nonce = document.querySelector('meta[name="style-nonce"]').content;
const create = Document.prototype.createElement;
Document.prototype.createElement = function createElement(name, options) {
  const made = create.call(this, name, options);
  if (made instanceof HTMLStyleElement) made.nonce = nonce;
  return made;
};
