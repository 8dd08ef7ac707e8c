"use strict";
// What the pages of runs are made of: numbers, swatches, tables.

const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4]];
const SVG = "http://www.w3.org/2000/svg";

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function inColour(index) {
  return css(`--colour-${index % 8}`);
}

// 4 significant digits, as in the terminal.
function shortNumber(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : value.toPrecision(4);
}

function tickNumber(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e7) return value.toExponential(2).replace(/\.?0+e/, "e");
  return Number(value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 8 });
}

function bytes(value, digits) {
  if (typeof value !== "number") return shortNumber(value);
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; Math.abs(value) >= 1000 && unit < 4; unit += 1) value /= 1000;
  return `${Number(value.toPrecision(digits))} ${units[unit]}`;
}

function percent(value) {
  return typeof value === "number" ? `${Number((100 * value).toPrecision(3))} %` : shortNumber(value);
}

const FORMATS = {
  number: { value: shortNumber, tick: tickNumber },
  bytes: { value: (value) => bytes(value, 4), tick: (value) => bytes(value, 6) },
  percent: { value: percent, tick: percent },
};

// A short line in the colour and the dashes of a curve.
function swatch(curve) {
  const picture = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "line");
  for (const [name, value] of Object.entries({ viewBox: "0 0 24 8", width: "24", height: "8", "aria-hidden": "true" })) {
    picture.setAttribute(name, value);
  }
  const ends = { x1: "0", y1: "4", x2: "24", y2: "4", "stroke-dasharray": DASHES[curve.dash].join(" "), class: `line-${curve.colour % 8}` };
  for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
  picture.append(line);
  return picture;
}

function table(caption, head, rows, options = {}) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return make("td", { text, class: /^[-+\d.,:e% –]*$/.test(text) ? "number" : null });
  };
  const body = rows.map((row, place) => make("tr", { class: options.marked === place ? "marked" : null },
    make("th", { scope: "row", text: String(row[0]) }), ...row.slice(1).map(cell)));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, make("table", {},
    make("caption", { text: caption, class: options.isCaptionHidden ? "unseen" : null }),
    make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col", text: name })))),
    make("tbody", {}, ...body)));
}
