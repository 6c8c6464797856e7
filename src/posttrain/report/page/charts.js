// SPDX-License-Identifier: Apache-2.0
// Charts as SVG, drawn anew for each width. Each can be read by pointer and by arrow keys; what is read stands below it.

const MARGIN = { left: 54, right: 14, top: 10, bottom: 24 };

function ticks(low, high, count) {
  const span = high - low;
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1)
    found.push(Number((at * step).toPrecision(12)));
  return found;
}

// Steps and counts are whole numbers, so no tick stands between two of them.
const fits = (format) => (tick) => format !== int || Number.isInteger(tick);

function extent(values, { zero = false, pad = 0.04 } = {}) {
  const known = values.filter((value) => value !== null && value !== undefined && Number.isFinite(value));
  if (!known.length) return null;
  let low = known.reduce((a, b) => Math.min(a, b));
  let high = known.reduce((a, b) => Math.max(a, b));
  if (zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
  if (low === high) {
    const room = Math.abs(low) * 0.1 || 0.5;
    return [low - room, high + room];
  }
  const room = (high - low) * pad;
  return [zero && low === 0 ? 0 : low - room, zero && high === 0 ? 0 : high + room];
}

// The part that all charts share: axes, the cursor, and the line below.
function frame({
  label,
  height = 200,
  xs,
  xDomain,
  yDomain,
  yTicks = yDomain,
  format = num,
  xFormat = int,
  xLabel,
  draw,
  read,
}) {
  if (!yDomain || !Number.isFinite(yDomain[1] - yDomain[0]) || !Number.isFinite(xDomain[1] - xDomain[0])) {
    return el("p", { class: "none" }, yDomain ? "These values are too far apart to be drawn." : "No values.");
  }
  const readout = el("figcaption", { class: "readout", "aria-live": "polite" });
  const plot = el("div", { class: "plot", tabindex: "0", role: "img", "aria-label": label });
  let at = xs.length - 1;
  let move = () => {};
  const show = (index) => {
    at = Math.max(0, Math.min(xs.length - 1, index));
    move();
    readout.replaceChildren(...read(at));
  };
  const paint = () => {
    const width = plot.clientWidth;
    if (!width) return;
    const right = width - MARGIN.right;
    const bottom = height - MARGIN.bottom;
    const x = (value) => MARGIN.left + ((value - xDomain[0]) / (xDomain[1] - xDomain[0] || 1)) * (right - MARGIN.left);
    const y = (value) => bottom - ((value - yDomain[0]) / (yDomain[1] - yDomain[0])) * (bottom - MARGIN.top);
    const root = svg("svg", { width, height, "aria-hidden": "true" });
    for (const tick of ticks(yTicks[0], yTicks[1], 4).filter(fits(format))) {
      root.append(
        svg("line", { class: tick === 0 ? "axis" : "grid", x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick) }),
        svg(
          "text",
          { class: "tick", x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" },
          format(tick).replace(".0%", "%"),
        ),
      );
    }
    const most = Math.max(2, Math.floor((right - MARGIN.left) / 90));
    for (const tick of ticks(xDomain[0], xDomain[1], most).filter(fits(xFormat))) {
      root.append(svg("text", { class: "tick", x: x(tick), y: height - 6, "text-anchor": "middle" }, xFormat(tick)));
    }
    draw(root, x, y, { right, bottom });
    const cursor = svg("line", { class: "cursor", y1: MARGIN.top, y2: bottom });
    root.append(cursor);
    move = () => {
      cursor.setAttribute("x1", x(xs[at]));
      cursor.setAttribute("x2", x(xs[at]));
    };
    move();
    plot.replaceChildren(root);
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const inner = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
    show(nearest(xs, xDomain[0] + inner * (xDomain[1] - xDomain[0])));
  });
  plot.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: xs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  });
  new ResizeObserver(paint).observe(plot);
  show(at);
  return el("figure", null, plot, xLabel ? el("div", { class: "x-label" }, xLabel) : null, readout);
}

function nearest(xs, wanted) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= wanted) low = middle;
    else high = middle;
  }
  return Math.abs(xs[low] - wanted) <= Math.abs(xs[high] - wanted) ? low : high;
}

const key = (color, text, value) =>
  el(
    "span",
    { class: "key" },
    color === null ? null : el("i", { class: `swatch f${color}` }),
    el("span", null, text),
    value === undefined ? null : el("b", null, value),
  );

// A line breaks where there is no value, unless it is to bridge the gap.
function linePath(xs, values, x, y, bridge) {
  let path = "";
  let pen = false;
  xs.forEach((each, at) => {
    const value = values[at];
    if (value === null || value === undefined) {
      pen = pen && bridge;
      return;
    }
    path += `${pen ? "L" : "M"}${x(each).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  });
  return path;
}

// Runs of places at which all of the columns have a value.
function runs(count, ...columns) {
  const found = [];
  let run = [];
  for (let at = 0; at < count; at += 1) {
    if (columns.every((column) => column[at] !== null && column[at] !== undefined)) run.push(at);
    else if (run.length) {
      found.push(run);
      run = [];
    }
  }
  return run.length ? [...found, run] : found;
}

// Lines over steps. A series: {name, values, color, low, high, faint, dash, bridge}; low and high make a band.
function lineChart({ label, xs, series, format = num, height, zero, yDomain, xLabel = "step", read }) {
  const all = series.flatMap((each) => [...each.values, ...(each.low || []), ...(each.high || [])]);
  return frame({
    label,
    height,
    xs,
    xDomain: [xs[0], xs[xs.length - 1]],
    yDomain: yDomain || extent(all, { zero }),
    format,
    xLabel,
    draw(root, x, y) {
      for (const each of series.filter((one) => one.low)) {
        for (const run of runs(xs.length, each.low, each.high)) {
          const top = run.map((at) => `${x(xs[at]).toFixed(1)} ${y(each.high[at]).toFixed(1)}`);
          const under = run.map((at) => `${x(xs[at]).toFixed(1)} ${y(each.low[at]).toFixed(1)}`).reverse();
          root.append(svg("path", { class: `band f${each.color}`, d: `M${[...top, ...under].join("L")}Z` }));
        }
      }
      for (const each of series) {
        root.append(
          svg("path", {
            class: `line s${each.color}${each.faint ? " faint" : ""}${each.dash ? " dash" : ""}`,
            d: linePath(xs, each.values, x, y, each.bridge),
          }),
        );
        if (each.faint || each.values.filter((value) => value !== null && value !== undefined).length > 60) continue;
        xs.forEach((step, at) => {
          if (each.values[at] !== null && each.values[at] !== undefined) {
            root.append(svg("circle", { class: `f${each.color}`, cx: x(step), cy: y(each.values[at]), r: 2.5 }));
          }
        });
      }
    },
    read:
      read ||
      ((at) => [
        el("span", { class: "at" }, `${xLabel} ${int(xs[at])}`),
        ...series.map((each) => key(each.color, each.name, format(each.values[at]))),
      ]),
  });
}

// Counts over ranges of a number, or of single values. A bar: [low, high, count].
function barChart({ label, bars, xLabel, height }) {
  const counts = bars.map((bar) => bar[2]);
  const xs = bars.map((bar) => bar[0] + (bar[1] - bar[0]) / 2);
  const single = bars.every((bar) => bar[0] === bar[1]);
  const gaps = xs.slice(1).map((each, at) => each - xs[at]);
  return frame({
    label,
    height,
    xs,
    xDomain: single ? extent(xs, { pad: 0.08 }) : [bars[0][0], bars[bars.length - 1][1]],
    yDomain: [0, counts.reduce((a, b) => Math.max(a, b)) * 1.05],
    format: int,
    xFormat: num,
    xLabel,
    draw(root, x, y) {
      const room = gaps.reduce((least, gap) => Math.min(least, x(gap) - x(0)), 48) * 0.7;
      bars.forEach(([low, high, count], at) => {
        const width = Math.max(3, single ? room : x(high) - x(low) - 1);
        const left = single ? x(xs[at]) - width / 2 : x(low);
        root.append(svg("rect", { class: "bar f0", x: left, y: y(count), width, height: y(0) - y(count) }));
      });
    },
    read: (at) => [
      el(
        "span",
        { class: "at" },
        single ? `${xLabel} ${num(xs[at])}` : `${num(bars[at][0])} to below ${num(bars[at][1])}`,
      ),
      key(0, "candidates", int(bars[at][2])),
    ],
  });
}

// Shares that add up, over steps. A layer: {name, values, color}.
function stackChart({ label, xs, layers, height, read }) {
  const base = xs.map(() => 0);
  const stacked = layers.map((layer) => {
    const low = [...base];
    layer.values.forEach((value, at) => {
      base[at] += value || 0;
    });
    return { ...layer, low, high: [...base] };
  });
  return frame({
    label,
    height,
    xs,
    xDomain: [xs[0], xs[xs.length - 1]],
    yDomain: [0, Math.min(1, base.reduce((a, b) => Math.max(a, b), 0.04) * 1.1)],
    format: percent,
    xLabel: "step",
    draw(root, x, y, { right }) {
      const width = Math.min(28, ((right - MARGIN.left) / xs.length) * 0.75);
      for (const layer of stacked) {
        if (width > 3) {
          xs.forEach((each, at) => {
            const tall = y(layer.low[at]) - y(layer.high[at]);
            if (tall)
              root.append(
                svg("rect", {
                  class: `layer f${layer.color}`,
                  x: x(each) - width / 2,
                  y: y(layer.high[at]),
                  width,
                  height: tall,
                }),
              );
          });
          continue;
        }
        const top = xs.map((each, at) => `${x(each).toFixed(1)} ${y(layer.high[at]).toFixed(1)}`);
        const under = xs.map((each, at) => `${x(each).toFixed(1)} ${y(layer.low[at]).toFixed(1)}`).reverse();
        root.append(svg("path", { class: `layer f${layer.color}`, d: `M${[...top, ...under].join("L")}Z` }));
      }
    },
    read,
  });
}
