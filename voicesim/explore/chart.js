"use strict";
// Line charts of the moved setting and of the one beside it, as inline SVG.

const SVG = "http://www.w3.org/2000/svg";
const WIDEST = 760, NARROWEST = 300, HIGH = 128, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 20;

function svg(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// The next 1, 2 or 5 times a power of ten.
function nice(step) {
  const ten = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].map(n => n * ten).find(n => n >= step * (1 - 1e-9));
}

function label(value) {
  return Math.abs(value) >= 1000 ? value.toLocaleString("en-GB") : String(+value.toPrecision(3));
}

// Drawn as wide as there is room, so that the text stays as large on a narrow screen.
function room() {
  const free = document.getElementById("charts").clientWidth || WIDEST;
  return Math.max(NARROWEST, Math.min(WIDEST, free));
}

// sides: arrays of numbers or null, one a bin.  most: what is above is drawn at the upper edge.
function chart(title, minutes, sides, names, options = {}) {
  const WIDE = room();
  const all = sides.flat().filter(y => y !== null);
  let top = Math.max(...all, options.limit ? options.limit * 1.25 : 0, options.least || 1e-9);
  if (options.most) top = Math.min(top, options.most);
  const step = nice(top / 3);
  top = Math.ceil(top / step - 1e-9) * step;
  const end = Math.max(minutes[minutes.length - 1] || 1, 1e-9);
  const x = t => LEFT + (WIDE - LEFT - RIGHT) * t / end;
  const y = v => TOP + (HIGH - TOP - BOTTOM) * (1 - Math.min(v, top) / top);
  const image = svg("svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": spoken(title, sides, names)});
  for (let v = 0; v <= top * 1.0001; v += step) {
    image.append(svg("line", {class: "axis", x1: LEFT, x2: WIDE - RIGHT, y1: y(v), y2: y(v)}));
    image.append(svg("text", {x: LEFT - 6, y: y(v) + 4, "text-anchor": "end"}, label(v)));
  }
  const every = nice(end / (WIDE > 500 ? 8 : 4));
  for (let t = 0; t <= end * 1.0001; t += every) {
    const anchor = t > end - every / 3 ? "end" : t ? "middle" : "start";
    const unit = t + every > end * 1.0001 ? " min" : "";
    image.append(svg("text", {x: x(t), y: HIGH - 5, "text-anchor": anchor}, label(t) + unit));
  }
  if (options.limit) {
    const at = y(options.limit);
    image.append(svg("line", {class: "limit", x1: LEFT, x2: WIDE - RIGHT, y1: at, y2: at}));
  }
  sides.map((side, i) => [side, i]).reverse().forEach(([side, i]) =>
    image.append(svg("path", {class: i ? "beside" : "moved", d: path(minutes, side, x, y)})));
  const box = document.createElement("div");
  box.className = "chart";
  const heading = document.createElement("h2");
  heading.textContent = title;
  box.append(heading, image);
  return box;
}

function path(minutes, side, x, y) {
  let d = "", pen = "M";
  side.forEach((value, i) => {
    if (value === null) { pen = "M"; return; }
    d += `${pen}${x(minutes[i]).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  return d;
}

function spoken(title, sides, names) {
  const said = sides.map((side, i) => {
    const known = side.filter(value => value !== null);
    return known.length ? `${names[i]} at most ${label(Math.max(...known))}` : `${names[i]} nothing measured`;
  });
  return `${title}: ${said.join(", ")}`;
}
