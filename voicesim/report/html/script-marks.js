// --- marks -----------------------------------------------------------------------------------------

function path(mark, x, y, values, stepped) {
  let text = "", pen = "M", before = null;
  mark.x.forEach((at, i) => {
    const value = values[i];
    if (value === null || value === undefined) { pen = "M"; before = null; return; }
    const p = x(at).toFixed(1), q = y(value).toFixed(1);
    text += stepped && before !== null ? `H${p}V${q}` : `${pen}${p} ${q}`;
    pen = "L";
    before = value;
  });
  return text;
}

const kind = (mark, name) => `${name} ${colour(mark.variant)} ${mark.look || ""}`;

const DRAW = {
  line(group, mark, x, y) { group.append(make("path", { d: path(mark, x, y, mark.y, false), class: kind(mark, "line") })); },
  step(group, mark, x, y) { group.append(make("path", { d: path(mark, x, y, mark.y, true), class: kind(mark, "line") })); },
  area(group, mark, x, y, plot, top, bottom) {
    if (!mark.x.length) return;
    const line = path(mark, x, y, mark.y.map((v) => v || 0), false);
    group.append(make("path", { d: `${line}V${bottom}H${x(mark.x[0]).toFixed(1)}Z`, class: kind(mark, "area") }));
  },
  band(group, mark, x, y) {
    const known = mark.x.map((_, i) => i).filter((i) => mark.y[i] !== null && mark.y0[i] !== null);
    if (known.length < 2) return;
    const up = known.map((i) => `${x(mark.x[i]).toFixed(1)} ${y(mark.y[i]).toFixed(1)}`);
    const down = known.reverse().map((i) => `${x(mark.x[i]).toFixed(1)} ${y(mark.y0[i]).toFixed(1)}`);
    group.append(make("path", { d: `M${up.concat(down).join("L")}Z`, class: kind(mark, "band") }));
  },
  zone(group, mark, x, y, plot, top, bottom) {
    const [left, right] = plot.pixels;
    const a = Math.max(x(mark.x), left), b = Math.min(x(mark.x1), right);
    if (b <= a) return;
    group.append(make("rect", { x: a, y: top, width: b - a, height: bottom - top, class: kind(mark, "zone") }));
    if (b - a > 7 * mark.name.length * 0.85) {
      group.append(make("text", { x: (a + b) / 2, y: top + 12, class: kind(mark, "remark middle") }, mark.name));
    }
  },
  level(group, mark, x, y, plot) {
    const [left, right] = plot.pixels;
    group.append(make("line", { x1: left, x2: right, y1: y(mark.y), y2: y(mark.y), class: "level" }));
    group.append(make("text", { x: right - 4, y: y(mark.y) - 4, class: "remark end" }, mark.name));
  },
  place(group, mark, x, y, plot, top, bottom) {
    const p = x(mark.x), right = p > (plot.pixels[0] + plot.pixels[1]) / 2;
    group.append(make("line", { x1: p, x2: p, y1: top, y2: bottom, class: "level" }));
    group.append(make("text", { x: p + (right ? -4 : 4), y: (mark.low ? bottom - 6 : top + 12), class: `remark${right ? " end" : ""}` }, mark.name));
  },
  dots(group, mark, x, y) {
    mark.x.forEach((at, i) => {
      const q = mark.row === undefined ? mark.y[i] : mark.row;
      if (at === null || q === null) return;
      const text = mark.label ? mark.label[i] : mark.name;
      group.append(make("circle", { cx: x(at), cy: y(q), r: mark.row === undefined ? 4 : 2.5, class: kind(mark, "dot") }, make("title", {}, text)));
    });
  },
  ranges(group, mark, x, y) {
    if (mark.x === null) return;
    if (mark.x0 !== null && mark.x1 !== null) {
      group.append(make("line", { x1: x(mark.x0), x2: x(mark.x1), y1: y(mark.row), y2: y(mark.row), class: kind(mark, "range") }));
    }
    group.append(make("circle", { cx: x(mark.x), cy: y(mark.row), r: 5, class: kind(mark, "dot") }, make("title", {}, mark.label)));
  },
  spans(group, mark, x, y, plot) {
    const half = Math.abs(y(0.36) - y(0)), [left, right] = plot.pixels;
    mark.x.forEach((from, i) => {
      const a = Math.max(x(from), left - 4), b = Math.min(x(mark.x1[i]), right + 4);
      if (b < a) return;
      group.append(make("rect", { x: a, y: y(mark.row) - half, width: Math.max(b - a, 1), height: 2 * half,
        class: `${kind(mark, "span")} ${i % 2 ? "odd" : "even"}` }, make("title", {}, mark.label[i])));
    });
  },
};

function nearest(xs, x) { // index of the last x at or before, or the first
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (xs[middle] <= x) low = middle; else high = middle - 1;
  }
  return low;
}

function between(mark, x) { // a line's value at x; n/a in a gap
  const i = nearest(mark.x, x), j = Math.min(i + 1, mark.x.length - 1);
  if (!mark.x.length || x < mark.x[0] || x > mark.x[mark.x.length - 1]) return null;
  const a = mark.y[i], b = mark.y[j];
  if (a === null || b === null || mark.x[j] === mark.x[i]) return a;
  return a + ((b - a) * (x - mark.x[i])) / (mark.x[j] - mark.x[i]);
}

const closest = (mark, x) => {
  const i = nearest(mark.x, x), j = Math.min(i + 1, mark.x.length - 1);
  return mark.y[Math.abs(mark.x[j] - x) < Math.abs(mark.x[i] - x) ? j : i];
};

const READ = {
  line: (mark, x, panel) => say(mark.exact ? between(mark, x) : closest(mark, x), panel.y.unit),
  step: (mark, x, panel) => say(mark.y[nearest(mark.x, x)], panel.y.unit),
  area: (mark, x, panel) => say(mark.exact ? between(mark, x) : closest(mark, x), panel.y.unit),
  spans: (mark, x) => {
    const i = mark.x.findIndex((from, k) => from <= x && x <= mark.x1[k]);
    return i < 0 ? undefined : mark.label[i];
  },
};
