// SPDX-License-Identifier: Apache-2.0
// One group, opened: prompt, reference, and each candidate with its terms, final reward and advantage.

const ORDERS = {
  reward: ["highest reward first", (group) => group.final && ((a, b) => group.final[b] - group.final[a] || a - b)],
  rollout: ["rollout order", () => (a, b) => a - b],
  length: ["longest first", (group) => (a, b) => lengthOf(group, b) - lengthOf(group, a) || a - b],
};

const lengthOf = (group, at) => (group.tokens[at] === null ? (group.texts[at] || "").length : group.tokens[at]);

function inputBlock(label, value, needle) {
  if (value === null) return null;
  if (value[0] === "text" || value[0] === "json") {
    return el("div", { class: "input" }, el("h3", null, label), foldedText(value[1], needle));
  }
  return el(
    "div",
    { class: "input" },
    el("h3", null, label),
    value.map(([role, text]) => el("div", { class: "message" }, el("h4", null, name(role)), foldedText(text, needle))),
  );
}

// A number of A beside that of B, where two scorings are compared.
function both(a, b, format = num) {
  if (b === undefined) return exact(a, format(a));
  const same = a === b;
  return el(
    "span",
    { class: same ? "num" : "num changed", title: `${a} in A, ${b} in B` },
    same ? format(a) : `${format(a)} → ${format(b)}`,
  );
}

function advantageBar(value, reach) {
  if (value === null || !reach) return null;
  const size = (Math.abs(value) / reach) * 50;
  return el(
    "span",
    { class: "track", "aria-hidden": "true" },
    el("i", { class: value < 0 ? "f1" : "f0", style: { width: `${size}%`, [value < 0 ? "right" : "left"]: "50%" } }),
  );
}

function candidateCard(group, at, needle, reach) {
  const other = group.other;
  const terms = [...new Set([...Object.keys(group.terms), ...Object.keys(other ? other.terms : {})])];
  const of = (source, read) => (source ? read(source) : undefined);
  const value = (source, term) => of(source, (each) => (each.terms[term] ? each.terms[term][at] : null));
  const one = (source, column) => of(source, (each) => (each[column] ? each[column][at] : null));
  const facts = [
    group.tokens[at] === null ? null : plural(group.tokens[at], "token"),
    group.texts[at] === null ? null : plural([...group.texts[at]].length, "character"),
    group.finish[at] === null
      ? null
      : group.finish[at] === "length"
        ? el("b", null, "truncated")
        : ["ended by ", name(group.finish[at])],
  ].filter(Boolean);
  const parts = (term) =>
    group.parts && group.parts[term]
      ? el("td", { class: "n" }, exact(group.parts[term][at], signed(group.parts[term][at])))
      : null;
  const advantage = one(group, "advantage");
  const scored = group.final || (other && other.final);
  return el(
    "article",
    { class: "candidate" },
    el(
      "header",
      null,
      el("span", { class: "place" }, String(at + 1)),
      el("h3", null, name(group.ids[at], needle)),
      el(
        "span",
        { class: "facts" },
        facts.map((fact, index) => [index ? " · " : "", fact]),
      ),
    ),
    scored
      ? el(
          "div",
          { class: "numbers" },
          el(
            "dl",
            null,
            el("div", null, el("dt", null, "final"), el("dd", null, both(one(group, "final"), one(other, "final")))),
            el(
              "div",
              null,
              el("dt", null, "advantage"),
              el("dd", null, both(advantage, one(other, "advantage"), signed), advantageBar(advantage, reach)),
            ),
          ),
          el(
            "table",
            { class: "terms" },
            el(
              "thead",
              null,
              el(
                "tr",
                null,
                el("th", { scope: "col" }, "term"),
                el("th", { scope: "col", class: "n" }, "value"),
                group.parts
                  ? el("th", { scope: "col", class: "n", title: "what the term adds to the advantage" }, "in advantage")
                  : null,
              ),
            ),
            el(
              "tbody",
              null,
              terms.map((term) =>
                el(
                  "tr",
                  null,
                  el("th", { scope: "row" }, name(term)),
                  el("td", { class: "n" }, both(value(group, term), value(other, term))),
                  parts(term),
                ),
              ),
            ),
          ),
        )
      : el("p", { class: "note" }, "not scored"),
    group.texts[at] === null
      ? el("p", { class: "none" }, "The text is not at hand.")
      : foldedText(group.texts[at], needle),
  );
}

function groupBody(group, needle, order) {
  const places = group.ids.map((_, at) => at);
  const compare = ORDERS[order][1](group);
  if (compare) places.sort(compare);
  const reach = (group.advantage || []).reduce((most, each) => Math.max(most, Math.abs(each)), 0);
  return places.map((at) => candidateCard(group, at, needle, reach));
}

// The window in which groups are read, one after the other, in the order of the table.
function groupWindow(data, blocks, nextTo) {
  const columns = data.table.columns;
  const title = el("h2", { id: "group-title" });
  const facts = el("p", { class: "facts" });
  const inputs = el("div", { class: "inputs" });
  const list = el("div", { class: "candidates" });
  const order = el(
    "select",
    { id: "order" },
    Object.entries(ORDERS).map(([value, [text]]) => el("option", { value }, text)),
  );
  const back = el("button", { type: "button", title: "previous group (left arrow)" }, "‹ previous");
  const on = el("button", { type: "button", title: "next group (right arrow)" }, "next ›");
  const close = el("button", { type: "button", class: "close", "aria-label": "close" }, "×");
  const body = el(
    "div",
    { class: "body", tabindex: "-1" },
    facts,
    inputs,
    el("div", { class: "bar-row" }, el("h3", null, "Candidates"), el("label", null, "order ", order)),
    list,
  );
  const dialog = el(
    "dialog",
    { "aria-labelledby": "group-title" },
    el("div", { class: "top" }, title, el("div", { class: "steps" }, back, on, close)),
    body,
  );
  let current = null;
  const redraw = (group) => list.replaceChildren(...groupBody(group, current.needle, order.value));
  async function open(index, needle = "") {
    current = { index, needle };
    title.replaceChildren(name(columns.id[index]));
    list.replaceChildren(el("p", { class: "none" }, "Opening…"));
    if (!dialog.open) dialog.showModal();
    back.disabled = nextTo(index, -1) === null;
    on.disabled = nextTo(index, 1) === null;
    history.replaceState(null, "", `#group-${index + 1}`);
    const group = await blocks.open(index);
    if (current.index !== index) return;
    facts.replaceChildren(...groupFacts(data, index).flatMap((fact, at) => [at ? " · " : "", fact]));
    inputs.replaceChildren(
      ...[
        inputBlock("Prompt", group.prompt, needle),
        inputBlock("Reference", group.reference, needle),
        group.mixed
          ? el("p", { class: "note" }, "Prompt or reference differ inside this group; the first candidate's are shown.")
          : null,
      ].filter(Boolean),
    );
    redraw(group);
    body.scrollTop = 0;
    body.focus();
  }
  const go = (way) => {
    const index = nextTo(current.index, way);
    if (index !== null) open(index, current.needle);
  };
  back.addEventListener("click", () => go(-1));
  on.addEventListener("click", () => go(1));
  close.addEventListener("click", () => dialog.close());
  order.addEventListener("change", async () => redraw(await blocks.open(current.index)));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => history.replaceState(null, "", "#groups"));
  dialog.addEventListener("keydown", (event) => {
    if (event.target.matches("select, input, .text") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowLeft") go(-1);
    if (event.key === "ArrowRight") go(1);
  });
  return { dialog, open };
}

function groupFacts(data, index) {
  const columns = data.table.columns;
  const found = [];
  if (columns.row[index] !== null) found.push(el("span", null, "row ", name(columns.row[index])));
  if (columns.step[index] !== null && data.steps.length > 1) found.push(`step ${int(columns.step[index])}`);
  found.push(plural(columns.size[index], "candidate"));
  if (data.kind === "compare") return [...found, ...compareFacts(columns, index)];
  if (columns.dropped[index] !== null)
    return [...found, el("span", null, "not scored: ", name(columns.dropped[index]))];
  found.push(`mean ${num(columns.mean[index])}`, `spread ${num(columns.std[index])}`);
  if (columns.why[index] !== null) found.push(`no spread: ${columns.why[index]}`);
  return found;
}
