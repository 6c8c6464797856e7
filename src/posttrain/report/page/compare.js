// SPDX-License-Identifier: Apache-2.0
// What two scorings of the same rollouts differ in.

const COMPARE_COLUMNS = [
  { id: "text", label: "group", sort: "id" },
  { id: "step", label: "step", n: true, format: int, steps: true },
  { id: "size", label: "candidates", n: true, format: int },
  { id: "change", label: "advantage moved", n: true, format: num, title: "mean absolute change of the advantage" },
  { id: "final", label: "reward moved", n: true, format: num, title: "mean absolute change of the final reward" },
  { id: "flips", label: "rank flips", n: true, format: int, title: "pairs of candidates that changed places" },
  { id: "signs", label: "sign flips", n: true, format: int, title: "candidates whose advantage changed its sign" },
];

function compareFacts(columns, index) {
  return [
    `advantage moved by ${num(columns.change[index])}`,
    plural(columns.flips[index], "rank flip"),
    plural(columns.signs[index], "sign flip"),
  ];
}

function compareTiles({ totals }) {
  return [
    tile("candidates in both", int(totals.candidates), ` in ${plural(totals.groups, "group")}`),
    tile(
      "rank flips",
      percent(share(totals.flips, totals.ordered)),
      ` ${int(totals.flips)} of ${plural(totals.ordered, "pair")}`,
      "pairs of a group's candidates that both rank and rank the other way round",
    ),
    tile(
      "advantage sign flips",
      percent(share(totals.signs, totals.annotated)),
      ` ${int(totals.signs)}`,
      "candidates whose advantage is above 0 on one side and below 0 on the other",
    ),
    tile(
      "another best candidate",
      percent(share(totals.tops, totals.groups)),
      ` ${int(totals.tops)} groups`,
      "groups whose best candidates in A and in B have none in common",
    ),
    totals.onlyA || totals.onlyB
      ? tile("in one only", int(totals.onlyA + totals.onlyB), ` ${int(totals.onlyA)} in A, ${int(totals.onlyB)} in B`)
      : null,
    totals.notScoredA || totals.notScoredB
      ? tile(
          "not scored",
          int(totals.notScoredA + totals.notScoredB),
          ` ${int(totals.notScoredA)} in A, ${int(totals.notScoredB)} in B`,
        )
      : null,
  ];
}

function changesSection({ changes }) {
  const head = ["", "mean in A", "mean in B", "change", "candidates changed", "mean size", "largest"];
  const rows = changes.map((each) =>
    el(
      "tr",
      null,
      el("th", { scope: "row" }, name(each.name), each.only ? el("small", null, ` only in ${each.only}`) : null),
      el("td", { class: "n", "data-label": "mean in A" }, exact(each.meanA)),
      el("td", { class: "n", "data-label": "mean in B" }, exact(each.meanB)),
      el(
        "td",
        { class: "n", "data-label": "change" },
        exact(each.change, each.change === null ? NONE : signed(each.change)),
      ),
      el("td", { class: "n", "data-label": "candidates changed" }, percent(each.changed)),
      el("td", { class: "n", "data-label": "mean size" }, exact(each.size)),
      el("td", { class: "n", "data-label": "largest" }, exact(each.largest)),
    ),
  );
  const table = el(
    "table",
    { class: "plain cards" },
    el(
      "thead",
      null,
      el(
        "tr",
        null,
        head.map((text, at) => el("th", { scope: "col", class: at ? "n" : null }, text)),
      ),
    ),
    el("tbody", null, rows),
  );
  return section(
    "changes",
    "Changes",
    "Over the candidates that both sides scored; a change is B minus A. The mean size is that of the absolute changes.",
    el("div", { class: "card scroll" }, table),
  );
}

function differencesSection({ differences }) {
  const rows = differences.map(([label, a, b]) =>
    el(
      "tr",
      null,
      el("th", { scope: "row" }, name(label)),
      el("td", { "data-label": "A" }, name(a)),
      el("td", { "data-label": "B" }, name(b)),
    ),
  );
  if (!rows.length) return null;
  return section(
    "differences",
    "What differs",
    null,
    el(
      "div",
      { class: "card scroll" },
      el(
        "table",
        { class: "plain cards" },
        el(
          "thead",
          null,
          el(
            "tr",
            null,
            ["", "A", "B"].map((text) => el("th", { scope: "col" }, text)),
          ),
        ),
        el("tbody", null, rows),
      ),
    ),
  );
}
