// SPDX-License-Identifier: Apache-2.0
// Put the page together.

function navigation(sections) {
  return el(
    "nav",
    { "aria-label": "sections" },
    sections.map((each) => el("a", { href: `#${each.id}` }, each.querySelector("h2").textContent)),
  );
}

function reportSections(data, table) {
  return [
    rewardSection(data),
    termsSection(data),
    spreadSection(data, table.showReason),
    lengthSection(data),
    metricSection("held-out", "Train against held-out", null, data.heldOut),
    metricSection(
      "diagnostics",
      "Provider diagnostics",
      "Reported by the providers; none of them enters a reward or an advantage.",
      data.diagnostics,
    ),
    slowSection(data, table.open),
    table.node,
  ];
}

async function start() {
  const data = await readIndex();
  const table = data.table.columns.id.length
    ? groupTable(data, blockReader(data.at))
    : { node: null, open: () => {}, showReason: () => {} };
  const compare = data.kind === "compare";
  const sections = (
    compare ? [differencesSection(data), changesSection(data), table.node] : reportSections(data, table)
  ).filter(Boolean);
  const tiles = (compare ? compareTiles(data) : reportTiles(data)).filter(Boolean);
  document.getElementById("page").replaceChildren(heading(data, tiles), navigation(sections), ...sections);
  const asked = /^#group-(\d+)$/.exec(location.hash);
  if (asked && asked[1] >= 1 && asked[1] <= data.table.columns.id.length) await table.open(asked[1] - 1);
  document.documentElement.dataset.ready = "yes";
}

if (typeof DecompressionStream === "undefined") {
  document.getElementById("wait").textContent =
    "This report needs a browser of 2023 or later (one that has DecompressionStream).";
} else {
  start();
}
