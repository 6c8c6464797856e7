// SPDX-License-Identifier: Apache-2.0
// The sections of a report above its table.

function section(id, title, lead, ...body) {
  const inner = body.flat(Infinity).filter(Boolean);
  if (!inner.length) return null;
  return el(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    el("h2", { id: `${id}-title` }, title),
    lead ? el("p", { class: "lead" }, lead) : null,
    inner,
  );
}

const card = (title, note, ...body) =>
  el(
    "div",
    { class: "card" },
    title ? el("h3", null, title) : null,
    note ? el("p", { class: "note" }, note) : null,
    body,
  );

const grid = (...cards) => {
  const inner = cards.flat(Infinity).filter(Boolean);
  return inner.length ? el("div", { class: "grid" }, inner) : null;
};

const tile = (label, value, note, title) =>
  el(
    "div",
    { class: "tile", title: title || null },
    el("dt", null, label),
    el("dd", null, value, note ? el("small", null, note) : null),
  );

function heading(data, tiles) {
  const facts = data.made.length
    ? el(
        "details",
        { class: "made" },
        el("summary", null, data.kind === "compare" ? "What made A and B" : "What made these scores"),
        el(
          "dl",
          null,
          data.made.map(([label, value]) => [el("dt", null, label), el("dd", null, name(value))]),
        ),
      )
    : null;
  return el(
    "header",
    { id: "top" },
    el("p", { class: "kind" }, data.kind === "compare" ? "Posttrain comparison" : "Posttrain report"),
    el("h1", null, name(data.title)),
    el("dl", { class: "tiles" }, tiles),
    data.notes.map((note) => el("p", { class: "remark" }, name(note))),
    facts,
  );
}

function reportTiles({ totals }) {
  const dropped = totals.groups - totals.scoredGroups;
  return [
    tile(
      "reward",
      totals.mean === null ? "not scored" : num(totals.mean),
      totals.std === null ? "" : ` ± ${num(totals.std)}`,
      "mean and population standard deviation over all scored candidates",
    ),
    tile(
      "spread inside a group",
      num(totals.spread),
      "",
      "mean over the scored groups of the sample standard deviation of their rewards",
    ),
    tile("groups", int(totals.groups), ` ${plural(totals.candidates, "candidate")}`),
    tile(
      "without spread",
      percent(share(totals.zero, totals.scoredGroups)),
      ` ${int(totals.zero)}`,
      "share of the scored groups whose candidates all have the same reward",
    ),
    tile(
      "truncated",
      totals.unknown === totals.candidates ? "not recorded" : percent(share(totals.truncated, totals.candidates)),
      "",
      "candidates whose finish_reason is exactly length",
    ),
    dropped
      ? tile(
          "not scored",
          int(dropped),
          ` ${dropped === 1 ? "group" : "groups"}`,
          "dropped groups: an outside service could not answer",
        )
      : null,
  ];
}

function rewardSection({ reward, totals }) {
  if (totals.mean === null && !reward.steps.length) return null;
  const minus = (sign) =>
    reward.mean.map((mean, at) => (mean === null || reward.std[at] === null ? null : mean + sign * reward.std[at]));
  const over =
    reward.steps.length > 1
      ? card(
          "Reward over steps",
          "Mean of the final reward; the band is one standard deviation to each side, the faint lines the extremes.",
          lineChart({
            label: "Final reward over steps",
            xs: reward.steps,
            height: 240,
            series: [
              { name: "lowest", values: reward.low, color: 7, faint: true },
              { name: "highest", values: reward.high, color: 7, faint: true },
              { name: "mean", values: reward.mean, color: 0, low: minus(-1), high: minus(1) },
            ],
            read: (at) => [
              el("span", { class: "at" }, `step ${int(reward.steps[at])}`),
              key(0, "mean", num(reward.mean[at])),
              key(null, "±", num(reward.std[at])),
              key(null, "lowest", num(reward.low[at])),
              key(null, "highest", num(reward.high[at])),
            ],
          }),
        )
      : null;
  const bars = reward.bins.length
    ? card(
        "Distribution",
        "Candidates by final reward, over all steps.",
        barChart({ label: "Candidates by final reward", bars: reward.bins, xLabel: "final reward", height: 240 }),
      )
    : null;
  return section("reward", "Reward", null, grid(over, bars));
}

const REASON_COLORS = [2, 1, 3, 7];
const REASON_TEXT = {
  "all right": "every term that says right or wrong is 1 for every candidate",
  "all wrong": "every term that says right or wrong is 0 for every candidate",
  "terms cancel": "terms differ inside the group, their weighted sum does not",
  "one value": "anything else: one reward for all, neither right nor wrong",
};

function spreadSection({ spread, steps, totals }, showReason) {
  if (!totals.scoredGroups) return null;
  if (!totals.zero)
    return section("spread", "Groups without spread", "None: in every scored group rewards differ.", el("div"));
  const sums = spread.counts.map((counts) => counts.reduce((a, b) => a + b, 0));
  const rows = spread.reasons.map((reason, at) =>
    el(
      "li",
      null,
      el(
        "button",
        { type: "button", class: "reason", onclick: () => showReason(reason), disabled: !sums[at] },
        el("i", { class: `swatch f${REASON_COLORS[at]}` }),
        el("b", null, reason),
        el("span", { class: "num" }, `${int(sums[at])} · ${percent(share(sums[at], totals.scoredGroups))}`),
      ),
      el("small", null, REASON_TEXT[reason]),
    ),
  );
  const layers = spread.reasons.map((reason, at) => ({
    name: reason,
    color: REASON_COLORS[at],
    values: spread.counts[at].map((count, step) => share(count, spread.scored[step])),
  }));
  const over =
    steps.length > 1
      ? card(
          "Over steps",
          "Share of the scored groups of a step.",
          stackChart({
            label: "Share of groups without spread over steps, by reason",
            xs: steps,
            layers,
            height: 220,
            read: (at) => [
              el("span", { class: "at" }, `step ${int(steps[at])}`),
              ...layers.map((layer) => key(layer.color, layer.name, percent(layer.values[at]))),
            ],
          }),
        )
      : null;
  const verdicts = spread.verdicts.length
    ? ["Terms that say right or wrong: ", spread.verdicts.map((term, at) => [at ? ", " : "", name(term)]), "."]
    : "No term says only right or wrong, so no group counts as all right or all wrong.";
  return section(
    "spread",
    "Groups without spread",
    "Where all candidates of a group have the same reward, none gets an advantage.",
    grid(card("Why", null, el("ul", { class: "reasons" }, rows), el("p", { class: "note" }, verdicts)), over),
  );
}

function lengthSection({ lengths, finish, steps, totals }) {
  const byLength = lengths && lengths.bins.length > 1 ? lengthCard(lengths) : null;
  const known = totals.unknown < totals.candidates;
  const over =
    known && steps.length > 1
      ? card(
          "How completions end",
          "Share of the candidates: cut at the token budget (finish_reason is length), and without a recorded reason.",
          lineChart({
            label: "Truncated share over steps",
            xs: steps,
            format: percent,
            zero: true,
            height: 240,
            series: [
              { name: "truncated", values: finish.truncated, color: 1 },
              { name: "unknown", values: finish.unknown, color: 7 },
            ],
          }),
        )
      : null;
  return section("length", "Length and truncation", null, grid(byLength, over));
}

function lengthCard(lengths) {
  const { bins, unit } = lengths;
  const xs = bins.map((bin) => (bin[0] + bin[1]) / 2);
  const most = bins.reduce((found, bin) => Math.max(found, bin[2]), 0);
  const mean = bins.map((bin) => bin[4]);
  const spread = (sign) => bins.map((bin) => (bin[4] === null || bin[5] === null ? null : bin[4] + sign * bin[5]));
  const [low, high] = [spread(-1), spread(1)];
  const domain = extent([...mean, ...low, ...high]);
  const yDomain = domain && [domain[0] - (domain[1] - domain[0]) * 0.4, domain[1]];
  const covered =
    lengths.count < lengths.of ? ` Known for ${int(lengths.count)} of ${int(lengths.of)} candidates.` : "";
  return card(
    "Reward against completion length",
    `Mean reward by length, with one standard deviation; bars count candidates, the coloured part the truncated ones. Correlation inside groups: ${num(lengths.correlation)}.${covered}`,
    frame({
      label: "Reward against completion length",
      height: 240,
      xs,
      xDomain: [bins[0][0], bins[bins.length - 1][1]],
      yDomain,
      yTicks: domain,
      xFormat: num,
      xLabel: `length in ${unit}`,
      draw(root, x, y, { bottom }) {
        const room = (bottom - MARGIN.top) * 0.26;
        for (const [from, to, count, cut] of bins) {
          const width = Math.max(2, x(to) - x(from) - 1);
          const tall = (part) => (part ? Math.max(1, (part / most) * room) : 0);
          root.append(
            svg("rect", { class: "bar soft f7", x: x(from), y: bottom - tall(count), width, height: tall(count) }),
            svg("rect", { class: "bar f1", x: x(from), y: bottom - tall(cut), width, height: tall(cut) }),
          );
        }
        xs.forEach((each, at) => {
          if (low[at] !== null)
            root.append(
              svg("line", { class: "whisker s0", x1: x(each), x2: x(each), y1: y(low[at]), y2: y(high[at]) }),
            );
          if (mean[at] !== null) root.append(svg("circle", { class: "f0", cx: x(each), cy: y(mean[at]), r: 3 }));
        });
        root.append(svg("path", { class: "line s0", d: linePath(xs, mean, x, y) }));
      },
      read: (at) => [
        el("span", { class: "at" }, `${num(bins[at][0])} to below ${num(bins[at][1])} ${unit}`),
        key(0, "reward", `${num(mean[at])} ± ${num(bins[at][5])}`),
        key(7, "candidates", int(bins[at][2])),
        key(1, "truncated", int(bins[at][3])),
      ],
    }),
  );
}

// Metrics in training and on held-out rows, which are scored every so many steps: a chart where there are steps, a line of text where there is one value.
function metricSection(id, title, lead, metrics) {
  const charts = [];
  const values = [];
  for (const metric of metrics) {
    const xs = [...new Set([...metric.train[0], ...metric.val[0]])].sort((a, b) => a - b);
    const series = ["train", "val"]
      .map((namespace, at) => ({
        name: namespace === "val" ? "held-out" : "train",
        values: onSteps(xs, metric[namespace]),
        color: at,
        bridge: true,
      }))
      .filter((each) => each.values.some((value) => value !== null));
    if (xs.length > 1)
      charts.push(
        card(name(metric.name), null, lineChart({ label: `${metric.name} over steps`, xs, series, height: 150 })),
      );
    else values.push([metric.name, series]);
  }
  const list = values.length
    ? el(
        "div",
        { class: "card" },
        el(
          "dl",
          { class: "values" },
          values.map(([metric, series]) => [
            el("dt", null, name(metric)),
            el(
              "dd",
              null,
              series.map((each) => [exact(each.values[0]), series.length > 1 ? ` ${each.name} ` : ""]),
            ),
          ]),
        ),
      )
    : null;
  return section(id, title, lead, charts.length ? el("div", { class: "grid small" }, charts) : null, list);
}

function onSteps(xs, [steps, values]) {
  const found = new Map(steps.map((step, at) => [step, values[at]]));
  return xs.map((x) => (found.has(x) ? found.get(x) : null));
}

function slowSection({ slowest, table }, openGroup) {
  const rows = slowest.map(([provider, group, longest, all]) => {
    const index = table.columns.id.lastIndexOf(group);
    const link =
      index >= 0
        ? el("button", { type: "button", class: "link", onclick: () => openGroup(index) }, name(group))
        : name(group);
    return el(
      "tr",
      null,
      el("th", { scope: "row" }, name(provider)),
      el("td", null, link),
      el("td", { class: "n" }, exact(longest, seconds(longest))),
      el("td", { class: "n" }, exact(all, seconds(all))),
    );
  });
  if (!rows.length) return null;
  const head = ["provider", "slowest group", "its time", "all groups"].map((text, at) =>
    el("th", { scope: "col", class: at > 1 ? "n" : null }, text),
  );
  return section(
    "slow",
    "Slowest groups",
    "Wall time in each provider, as the last checkpoint has it.",
    el(
      "div",
      { class: "card scroll" },
      el("table", { class: "plain" }, el("thead", null, el("tr", null, head)), el("tbody", null, rows)),
    ),
  );
}
