"use strict";
// Draws the charts of the page as SVG from the JSON inside it. voicesim/report/html/charts.py says
// what a chart is. Nothing is fetched and nothing is kept.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLOURS = 8;
const hidden = new Set();
const drawn = new Map(); // id of a chart -> Plot

const SVG = "http://www.w3.org/2000/svg";
function make(name, attributes = {}, ...inside) {
  const html = ["div", "button", "table", "tr", "th", "td", "p", "i"].includes(name);
  const node = html ? document.createElement(name) : document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...inside);
  return node;
}

const colour = (v) => (v === undefined ? "all" : `v${v % COLOURS}${Math.floor(v / COLOURS) % 2 ? " dashed" : ""}`);
const shown = (mark) => mark.variant === undefined || !hidden.has(mark.variant);

function say(x, unit = "") {
  if (x === null || x === undefined) return "n/a";
  const size = Math.abs(x);
  const digits = size >= 100 || Number.isInteger(x) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  const text = size > 0 && size < 0.001 ? x.toExponential(1)
    : x.toLocaleString("en-US", { maximumFractionDigits: digits });
  return unit === "" ? text : unit === "%" ? `${text}%` : `${text} ${unit}`;
}

// --- scales ------------------------------------------------------------------------------------

function scale(low, high, from, to, log) {
  const f = log ? Math.log10 : (x) => x;
  const a = f(low), b = f(high) === f(low) ? f(low) + 1 : f(high);
  const at = (x) => from + ((f(x) - a) / (b - a)) * (to - from);
  at.back = (p) => {
    const x = a + ((p - from) / (to - from)) * (b - a);
    return log ? 10 ** x : x;
  };
  return at;
}

function ticks(low, high, most, log) {
  if (log && high / low > 8) {
    const found = [];
    const steps = high / low > 1000 ? [1] : high / low > 50 ? [1, 3] : [1, 2, 5];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) {
      for (const m of steps) found.push(m * 10 ** e);
    }
    return found.filter((x) => x >= low * 0.999 && x <= high * 1.001);
  }
  const rough = (high - low) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}
