// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them. What has no value is a dash, never a number.

const NONE = "–";

const int = (value) => (value === null || value === undefined ? NONE : Math.round(value).toLocaleString("en-US"));

function num(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace("e+", "e").replaceAll("-", "−");
  const text =
    size >= 1000 ? value.toLocaleString("en-US", { maximumFractionDigits: 1 }) : String(Number(value.toPrecision(4)));
  return text.replace("-", "−");
}

const signed = (value) => (value > 0 ? `+${num(value)}` : num(value));

function percent(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return `${(value * 100).toFixed(1).replace("-", "−")}%`;
}

const share = (part, whole) => (whole ? part / whole : null);

const plural = (count, word) => `${int(count)} ${word}${count === 1 ? "" : "s"}`;

const seconds = (value) => (value >= 1 ? `${num(value)} s` : `${num(value * 1000)} ms`);

// A number with all of its digits at hand.
const exact = (value, shown) =>
  el(
    "span",
    { class: "num", title: value === null || value === undefined ? null : String(value) },
    shown || num(value),
  );
