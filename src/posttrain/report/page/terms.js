// SPDX-License-Identifier: Apache-2.0
// Terms: what each is worth, and which share of the advantage it has.

// A share between -1 and 1 as a bar to the right or to the left of a middle line.
function shareBar(value, color, reach) {
  if (value === null) return el("span", { class: "none" }, NONE);
  const size = Math.min(1, Math.abs(value) / reach) * 50;
  const style = { width: `${size}%`, [value < 0 ? "right" : "left"]: "50%" };
  return el(
    "span",
    { class: "share", title: String(value) },
    el("span", { class: "track" }, el("i", { class: `f${color}`, style })),
    el("span", { class: "num" }, percent(value)),
  );
}

function termsSection({ terms, shares, steps }) {
  if (!terms.length) return null;
  const reach = terms.reduce(
    (most, term) => Math.max(most, Math.abs(term.advantage || 0), Math.abs(term.reward || 0)),
    1,
  );
  const rows = terms.map((term, at) =>
    el(
      "tr",
      null,
      el("th", { scope: "row" }, el("i", { class: `swatch f${at % 7}` }), name(term.name)),
      el("td", { class: "n", "data-label": "weight" }, exact(term.weight)),
      el("td", { class: "n", "data-label": "mean" }, exact(term.mean)),
      el("td", { "data-label": "share of the advantage" }, shareBar(term.advantage, at % 7, reach)),
      el("td", { "data-label": "share of the reward" }, shareBar(term.reward, 7, reach)),
    ),
  );
  const head = ["term", "weight", "mean", "share of the advantage", "share of the reward"].map((text, at) =>
    el("th", { scope: "col", class: at === 1 || at === 2 ? "n" : null }, text),
  );
  const table = el(
    "div",
    { class: "card" },
    el("table", { class: "plain cards" }, el("thead", null, el("tr", null, head)), el("tbody", null, rows)),
    shares ? el("p", { class: "note" }, name(shares)) : null,
  );
  const lines = (title, note, values, format) =>
    card(
      title,
      note,
      lineChart({
        label: title,
        xs: steps,
        format,
        zero: true,
        height: 220,
        // There are seven colours; the terms behind the seventh have dashed lines.
        series: terms.map((term, at) => ({
          name: name(term.name),
          values: term[values],
          color: at % 7,
          dash: at >= 7,
        })),
      }),
    );
  const known = terms.some((term) => term.shares.some((value) => value !== null));
  const over =
    steps.length > 1
      ? [
          known ? lines("Share of the advantage over steps", null, "shares", percent) : null,
          lines("Mean of each term over steps", "Raw values, before the weights.", "means", num),
        ]
      : [];
  return section(
    "terms",
    "Terms",
    "An advantage is the sum of its terms' parts, each about its mean in the group. The share is a part's covariance with the advantage over the advantage's variance: shares add up to 100%, and a term that works against the reward has a negative one. The share of the reward also counts differences between groups, which no advantage sees.",
    table,
    grid(over),
  );
}
