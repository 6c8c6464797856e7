// SPDX-License-Identifier: Apache-2.0
// The table of groups: sorted and filtered over all of them, drawn only as far as somebody scrolls.

const REPORT_COLUMNS = [
  { id: "text", label: "group", sort: "id" },
  { id: "step", label: "step", n: true, format: int, steps: true },
  { id: "size", label: "candidates", n: true, format: int },
  { id: "mean", label: "mean", n: true, format: num },
  { id: "std", label: "spread", n: true, format: num, title: "sample standard deviation of the final rewards" },
  { id: "low", label: "lowest", n: true, format: num },
  { id: "high", label: "highest", n: true, format: num },
  { id: "cut", label: "truncated", n: true, format: int },
];
const PAGE = 60;
const PATIENCE = 250;

// What a person asked for, as a test of one group.
function filterOf(columns, form, found) {
  const field = (id) => (form[id] ? form[id].value : "");
  const from = field("from") === "" ? -Infinity : Number(field("from"));
  const to = field("to") === "" ? Infinity : Number(field("to"));
  const why = field("why");
  const cut = field("cut");
  const dropped = field("dropped");
  return (index) => {
    if (columns.step[index] < from || columns.step[index] > to) return false;
    if (why === "spread" && !(columns.std[index] !== null && columns.why[index] === null)) return false;
    if (why === "none" && columns.why[index] === null) return false;
    if (why && why !== "spread" && why !== "none" && columns.why[index] !== why) return false;
    if (cut && (cut === "yes") !== columns.cut[index] > 0) return false;
    if (dropped && (dropped === "yes") !== (columns.dropped[index] !== null)) return false;
    return !found || found.has(index);
  };
}

// Values in order; what has none comes last, whichever way it is sorted.
function sorter(values, descending) {
  const sign = descending ? -1 : 1;
  return (a, b) => {
    const [left, right] = [values[a], values[b]];
    if (left === null || right === null) return (left === null) - (right === null) || a - b;
    if (left === right) return a - b;
    return (left < right ? -1 : 1) * sign;
  };
}

const matches = (text, needle) => text.toLowerCase().includes(needle);

function inGroup(group, needle) {
  const inputs = [group.prompt, group.reference].filter(Boolean).flat(2);
  return [...inputs, ...group.texts, ...group.ids].some((text) => text !== null && matches(text, needle));
}

// All groups that hold a text. What the index knows comes at once, the rest as it is read; `told` hears of both.
function searcher(data, blocks, told) {
  let latest = 0;
  return async (needle) => {
    latest += 1;
    const mine = latest;
    if (!needle) return told(null, "");
    const columns = data.table.columns;
    const count = columns.id.length;
    const found = new Set();
    // As the needle stands inside JSON: a block without it need not be parsed.
    const written = JSON.stringify(needle).slice(1, -1);
    for (let at = 0; at < count; at += 1) {
      if ([columns.id[at], columns.row[at], columns.text[at]].some((text) => text !== null && matches(text, needle)))
        found.add(at);
    }
    told(found, `searched 0 of ${int(count)}`);
    let due = performance.now() + PATIENCE;
    for (let at = 0; at < count; at += 16) {
      const batch = Array.from({ length: Math.min(16, count - at) }, (_, step) => at + step).filter(
        (index) => !found.has(index),
      );
      const texts = await Promise.all(batch.map((index) => blocks.text(index)));
      if (mine !== latest) return undefined;
      texts.forEach((text, place) => {
        if (matches(text, written) && inGroup(JSON.parse(text), needle)) found.add(batch[place]);
      });
      if (performance.now() > due) {
        told(found, `searched ${int(at + 16)} of ${int(count)}`);
        due = performance.now() + PATIENCE;
      }
    }
    return told(found, "");
  };
}

function option(values, chosen = "") {
  return values.map(([value, text]) => el("option", { value, selected: value === chosen }, text));
}

const labelled = (text, control) => el("label", null, el("span", null, text), control);

function filterForm(data, shown) {
  const steps = data.steps.length > 1;
  const [first, last] = [data.steps[0], data.steps[data.steps.length - 1]];
  const bound = (id, text, value) =>
    labelled(
      text,
      el("input", {
        type: "number",
        id,
        name: id,
        min: first,
        max: last,
        placeholder: String(value),
        inputmode: "numeric",
      }),
    );
  const report = data.kind === "report";
  return el(
    "form",
    { class: "filters", role: "search", "aria-label": "filter the groups" },
    labelled(
      "text",
      el("input", {
        type: "search",
        id: "needle",
        name: "needle",
        placeholder: "in prompts, completions, ids",
        autocomplete: "off",
      }),
    ),
    steps ? [bound("from", "from step", first), bound("to", "to step", last)] : null,
    report
      ? labelled(
          "spread",
          el(
            "select",
            { id: "why", name: "why" },
            option([
              ["", "any"],
              ["spread", "with spread"],
              ["none", "without spread"],
              ...data.spread.reasons.map((reason) => [reason, reason]),
            ]),
          ),
        )
      : null,
    report
      ? labelled(
          "truncated",
          el(
            "select",
            { id: "cut", name: "cut" },
            option([
              ["", "any"],
              ["yes", "some"],
              ["no", "none"],
            ]),
          ),
        )
      : null,
    report && data.totals.groups > data.totals.scoredGroups
      ? labelled(
          "scored",
          el(
            "select",
            { id: "dropped", name: "dropped" },
            option([
              ["", "any"],
              ["no", "scored"],
              ["yes", "not scored"],
            ]),
          ),
        )
      : null,
    el(
      "div",
      { class: "phone" },
      labelled(
        "sort by",
        el(
          "select",
          { id: "sort", name: "sort" },
          option([
            ["", "as recorded"],
            ...shown.slice(1).flatMap((column) => [
              [`${column.id} down`, `${column.label}, largest first`],
              [`${column.id} up`, `${column.label}, smallest first`],
            ]),
          ]),
        ),
      ),
    ),
    el("button", { type: "reset" }, "clear"),
  );
}

function groupRow(data, shown, index, open) {
  const columns = data.table.columns;
  const dropped = columns.dropped && columns.dropped[index] !== null;
  const cells = shown
    .slice(1)
    .map((column) =>
      el(
        "td",
        { class: "n", "data-label": column.label },
        exact(columns[column.id][index], column.format(columns[column.id][index])),
      ),
    );
  const tags = [
    dropped ? el("span", { class: "tag" }, "not scored") : null,
    columns.why && columns.why[index] !== null ? el("span", { class: "tag" }, columns.why[index]) : null,
  ];
  const id = el("button", { type: "button", class: "link" }, name(columns.id[index]));
  const row = el(
    "tr",
    { "data-index": index },
    el(
      "th",
      { scope: "row" },
      el("div", { class: "who" }, id, tags),
      columns.text[index] ? el("div", { class: "snippet" }, name(columns.text[index])) : null,
    ),
    cells,
  );
  row.addEventListener("click", () => {
    if (!String(getSelection())) open(index);
  });
  return row;
}

function groupTable(data, blocks) {
  const columns = data.table.columns;
  const compare = data.kind === "compare";
  const shown = (compare ? COMPARE_COLUMNS : REPORT_COLUMNS).filter((column) => !column.steps || data.steps.length > 1);
  const form = filterForm(data, shown);
  const state = { found: null, order: [], drawn: 0, sort: compare ? "change" : "", descending: compare };
  const count = el("p", { class: "count", role: "status" });
  const body = el("tbody");
  const end = el("div", { class: "end" });
  const heads = shown.map((column) => {
    const button = el(
      "button",
      { type: "button", title: column.title || null, onclick: () => sortBy(column.sort || column.id) },
      column.label,
    );
    return el("th", { scope: "col", class: column.n ? "n" : null, "data-sort": column.sort || column.id }, button);
  });
  const viewer = groupWindow(data, blocks, (index, way) => {
    const place = state.order.indexOf(index) + way;
    return state.order.includes(index) && place >= 0 && place < state.order.length ? state.order[place] : null;
  });
  const needle = () => form.needle.value.trim().toLowerCase();
  const open = (index) => viewer.open(index, needle());
  const draw = () => {
    const next = state.order.slice(state.drawn, state.drawn + PAGE);
    body.append(...next.map((index) => groupRow(data, shown, index, open)));
    state.drawn += next.length;
  };
  const refresh = (progress = "") => {
    const wanted = filterOf(columns, form.elements, state.found);
    state.order = columns.id.map((_, index) => index).filter(wanted);
    if (state.sort) state.order.sort(sorter(columns[state.sort], state.descending));
    state.drawn = 0;
    body.replaceChildren();
    draw();
    for (const head of heads) {
      const mine = head.dataset.sort === state.sort;
      head.setAttribute("aria-sort", mine ? (state.descending ? "descending" : "ascending") : "none");
    }
    const all = columns.id.length;
    count.replaceChildren(
      `${state.order.length === all ? plural(all, "group") : `${int(state.order.length)} of ${plural(all, "group")}`}${progress ? ` · ${progress}` : ""}`,
    );
  };
  function sortBy(id, descending) {
    state.descending =
      descending === undefined ? (state.sort === id ? !state.descending : id !== "id" && id !== "step") : descending;
    state.sort = id;
    refresh();
  }
  const search = searcher(data, blocks, (found, progress) => {
    state.found = found;
    refresh(progress);
  });
  let timer = 0;
  form.addEventListener("input", (event) => {
    if (event.target.id === "needle") {
      clearTimeout(timer);
      timer = setTimeout(() => search(needle()), PATIENCE);
    } else if (event.target.id === "sort") {
      const [id, way] = event.target.value.split(" ");
      sortBy(id, way === "down");
    } else refresh();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => search("")));
  new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && draw(), {
    rootMargin: "600px",
  }).observe(end);
  refresh();
  const table = el("table", { class: "groups cards" }, el("thead", null, el("tr", null, heads)), body);
  const node = section(
    "groups",
    "Groups",
    tableLead(data),
    el("div", { class: "card" }, form, count, table, end),
    viewer.dialog,
  );
  const showReason = (reason) => {
    form.reset();
    form.why.value = reason;
    search("");
    node.scrollIntoView();
  };
  return { node, open, showReason };
}

function tableLead(data) {
  const held = data.table.columns.id.length;
  if (data.kind === "compare")
    return `The ${plural(held, "group")} in which advantages moved most${held < data.totals.groups ? `, of ${int(data.totals.groups)}` : ""}. Open one to read both scorings side by side.`;
  if (!data.table.partial) return "Open a group to read its prompt, reference and completions.";
  return `The table holds ${int(held)} of ${plural(data.table.offered, "group")}: a choice in which each had the same chance, and the slowest. Everything above counts all of them.`;
}
