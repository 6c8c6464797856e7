// SPDX-License-Identifier: Apache-2.0
// Making elements. Whatever comes from the data becomes a text node or the value of a harmless attribute, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, item] of Object.entries(value)) node.style.setProperty(key, item);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Characters that a person can't see but that change what is seen: controls, direction overrides, halves of pairs.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff\ufff9-\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const codeOf = (text) => `U+${text.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

// A text as nodes: hidden characters get a label, and what was searched for is marked.
function textNodes(text, needle) {
  const nodes = [];
  const plain = (part) => {
    let from = 0;
    const folded = needle ? part.toLowerCase() : "";
    // Some letters change their length when folded; then nothing can be marked in the right place.
    if (needle && folded.length === part.length) {
      for (let at = folded.indexOf(needle); at >= 0; at = folded.indexOf(needle, from)) {
        if (at > from) nodes.push(part.slice(from, at));
        nodes.push(el("mark", null, part.slice(at, at + needle.length)));
        from = at + needle.length;
      }
    }
    if (from < part.length) nodes.push(part.slice(from));
  };
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    plain(text.slice(from, found.index));
    nodes.push(el("span", { class: "hidden-char", title: "a character that is not seen" }, codeOf(found[0])));
    from = found.index + found[0].length;
  }
  plain(text.slice(from));
  return nodes;
}

// A short text on one line that keeps its direction to itself.
const name = (text, needle) => el("bdi", null, textNodes(text, needle));

const HEAD = 900;
const TAIL = 600;
const STEP = 100000;

// A text of any length: the beginning and the end, since the answer often stands there; the middle on demand.
function foldedText(text, needle) {
  const box = el("div", { class: "text", dir: "auto", tabindex: "0" });
  if (text === "") {
    box.append(el("span", { class: "none" }, "empty"));
    return box;
  }
  const show = (head, tail) => {
    const rest = text.length - head - tail;
    if (rest <= 200) {
      box.replaceChildren(...textNodes(text, needle));
      return;
    }
    const more = el(
      "button",
      { type: "button", class: "more" },
      `show ${int(Math.min(rest, STEP))} more of ${int(rest)} characters`,
    );
    more.addEventListener("click", () => {
      show(head + STEP, tail);
      box.focus();
    });
    const cut = whole(text, head);
    const end = whole(text, text.length - tail);
    box.replaceChildren(...textNodes(text.slice(0, cut), needle), more, ...textNodes(text.slice(end), needle));
  };
  show(HEAD, TAIL);
  return box;
}

// A place near `at` that does not cut a pair of surrogates in two.
const whole = (text, at) =>
  /[\udc00-\udfff]/.test(text[at] || "") && /[\ud800-\udbff]/.test(text[at - 1] || "") ? at + 1 : at;
