// --- one chart -----------------------------------------------------------------------------------

class Plot {
  constructor(room, chart) {
    this.room = room;
    this.chart = chart;
    this.whole = [chart.x.min, chart.x.max];
    this.view = [...this.whole];
    this.cursor = null;
    this.canvas = make("div", { class: "canvas" });
    this.readout = make("div", { class: "readout", "aria-live": "polite" });
    room.append(this.canvas);
    if (chart.zoom) {
      room.append(this.tools(), this.readout);
      this.hand();
    }
    this.draw();
  }

  tools() {
    const bar = make("div", { class: "tools", role: "group", "aria-label": `Zoom: ${this.chart.title}` });
    const all = [["+", "zoom in", () => this.zoom(0.5)], ["−", "zoom out", () => this.zoom(2)],
      ["◀", "earlier", () => this.pan(-0.5)], ["▶", "later", () => this.pan(0.5)],
      ["all", "whole axis", () => this.see(...this.whole)]];
    for (const [text, label, act] of all) {
      const button = make("button", { type: "button", "aria-label": label, title: label, "data-do": label }, text);
      button.addEventListener("click", act);
      bar.append(button);
    }
    return bar;
  }

  zoom(factor) {
    const x = this.x, [left, right] = this.pixels;
    const middle = this.cursor === null ? (left + right) / 2 : x(this.cursor);
    this.see(x.back(middle - (middle - left) * factor), x.back(middle + (right - middle) * factor));
  }

  pan(share) {
    const [left, right] = this.pixels, by = (right - left) * share;
    this.see(this.x.back(left + by), this.x.back(right + by));
  }

  see(low, high) {
    const [least, most] = this.whole;
    if (!(high > low)) return;
    if (high - low >= most - least) { low = least; high = most; }
    if (low < least) { high = Math.min(most, high + least - low); low = least; }
    if (high > most) { low = Math.max(least, low - (high - most)); high = most; }
    if ((high - low) / (most - least) < 1e-6) return;
    this.view = [low, high];
    if (this.cursor !== null && (this.cursor < low || this.cursor > high)) this.cursor = null;
    this.draw();
  }

  hand() { // pointer and keys
    const area = this.canvas;
    area.tabIndex = 0;
    area.setAttribute("role", "group");
    area.setAttribute("aria-label", `${this.chart.title}: arrow keys read values, plus and minus zoom, 0 shows all`);
    let start = null;
    const at = (event) => {
      const box = area.firstChild.getBoundingClientRect();
      const [left, right] = this.pixels;
      const p = (event.clientX - box.left) * (this.width / box.width);
      return Math.min(Math.max(p, left), right);
    };
    area.addEventListener("pointermove", (event) => {
      const p = at(event);
      if (start !== null) this.brush(start, p);
      this.point(this.x.back(p));
    });
    area.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.pointerType === "mouse" && !event.target.closest(".stall")) start = at(event);
    });
    area.addEventListener("pointerup", (event) => {
      const from = start, to = at(event);
      start = null;
      this.brush(0, 0);
      if (from !== null && Math.abs(to - from) > 6) {
        this.see(this.x.back(Math.min(from, to)), this.x.back(Math.max(from, to)));
      }
    });
    area.addEventListener("pointerleave", () => { start = null; this.brush(0, 0); this.point(null); });
    area.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step && event.shiftKey) this.pan(step * 0.25);
      else if (step) {
        const [left, right] = this.pixels;
        const p = this.cursor === null ? (left + right) / 2 : this.x(this.cursor) + (step * (right - left)) / 100;
        this.point(this.x.back(Math.min(Math.max(p, left), right)));
      } else if (event.key === "+" || event.key === "=") this.zoom(0.5);
      else if (event.key === "-") this.zoom(2);
      else if (event.key === "0" || event.key === "Escape") { this.cursor = null; this.see(...this.whole); }
      else return;
      event.preventDefault();
    });
  }

  brush(a, b) {
    this.brushed.setAttribute("x", Math.min(a, b));
    this.brushed.setAttribute("width", Math.abs(a - b));
  }

  draw() {
    const { chart } = this;
    this.width = Math.max(this.room.clientWidth || 0, 300);
    const names = chart.panels.flatMap((p) => p.rows || []);
    const left = Math.min(Math.max(56, ...names.map((n) => 7 * Math.min(n.length, 24) + 12)), this.width * 0.4);
    this.pixels = [left, this.width - 14];
    this.x = scale(...this.view, ...this.pixels, chart.x.log);
    const height = chart.panels.reduce((sum, p) => sum + p.height + 24, 36);
    const id = `c-${chart.id}`;
    const pressed = Boolean(chart.stalls && chart.stalls.length);
    const svg = make("svg", { viewBox: `0 0 ${this.width} ${height}`, width: "100%", role: pressed ? "group" : "img",
      "aria-labelledby": `${id}-t ${id}-d` },
      make("title", { id: `${id}-t` }, chart.title), make("desc", { id: `${id}-d` }, chart.desc));
    let top = 20;
    chart.panels.forEach((panel, i) => {
      this.panel(svg, panel, top, `${id}-${i}`);
      top += panel.height + 24;
    });
    const bottom = top - 24;
    for (const t of ticks(...this.view, (this.pixels[1] - this.pixels[0]) / 70, chart.x.log)) {
      svg.append(make("text", { x: this.x(t), y: bottom + 15, class: "tick middle" }, say(t)));
    }
    svg.append(make("text", { x: (this.pixels[0] + this.pixels[1]) / 2, y: bottom + 31, class: "tick middle" }, chart.x.label));
    this.stalls(svg, bottom);
    this.brushed = make("rect", { x: 0, y: 20, width: 0, height: bottom - 20, class: "brush" });
    this.line = make("line", { y1: 20, y2: bottom, class: "cursor" });
    svg.append(this.brushed, this.line);
    this.canvas.replaceChildren(svg);
    this.point(this.cursor);
  }

  panel(svg, panel, top, id) {
    const { x } = this, [left, right] = this.pixels, bottom = top + panel.height;
    const y = panel.rows ? scale(-0.5, panel.rows.length - 0.5, top, bottom)
      : scale(panel.y.min, panel.y.max, bottom, top, panel.y.log);
    const edge = panel.rows ? 6 : 0; // half a dot
    const group = make("g", { "clip-path": `url(#${id})` });
    svg.append(make("clipPath", { id }, make("rect", { x: left - edge, y: top - 2, width: right - left + 2 * edge, height: panel.height + 4 })));
    svg.append(make("text", { x: left, y: top - 7, class: "label" }, panel.y.label));
    if (panel.rows) {
      panel.rows.forEach((name, i) => {
        const short = name.length > 24 ? `${name.slice(0, 23)}…` : name;
        svg.append(make("text", { x: left - 6, y: y(i) + 4, class: "tick end" }, short));
        group.append(make("line", { x1: left, x2: right, y1: y(i + 0.5), y2: y(i + 0.5), class: "grid" }));
      });
    } else {
      for (const t of ticks(panel.y.min, panel.y.max, panel.height / 32, panel.y.log)) {
        svg.append(make("text", { x: left - 6, y: y(t) + 4, class: "tick end" }, say(t)));
        svg.append(make("line", { x1: left, x2: right, y1: y(t), y2: y(t), class: "grid" }));
      }
    }
    svg.append(make("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "base" }), group);
    for (const mark of panel.marks) if (shown(mark)) DRAW[mark.kind](group, mark, x, y, this, top, bottom);
  }

  stalls(svg, bottom) {
    for (const stall of this.chart.stalls || []) {
      const a = this.x(stall.x), b = this.x(stall.x1), [left, right] = this.pixels;
      if (b < left || a > right) continue;
      const from = Math.max(a, left), to = Math.min(Math.max(b, a + 3), right);
      const rect = make("rect", { x: from, y: 20, width: Math.max(to - from, 2), height: bottom - 20, class: "stall",
        tabindex: 0, role: "button", "aria-label": stall.label, "data-stall": stall.id },
        make("title", {}, stall.label));
      const act = () => explain(this.chart, stall.id);
      rect.addEventListener("click", act);
      rect.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); act(); }
      });
      svg.append(rect);
    }
  }

  point(x) { // the values at x
    this.cursor = x;
    if (!this.line) return;
    this.line.setAttribute("visibility", x === null ? "hidden" : "visible");
    if (!this.chart.zoom) return;
    if (x === null) {
      this.readout.replaceChildren(make("p", { class: "hint" },
        "Point, or press the arrow keys, to read values; drag, or press + and −, to zoom."));
      return;
    }
    this.line.setAttribute("x1", this.x(x));
    this.line.setAttribute("x2", this.x(x));
    const columns = [], rows = new Map();
    for (const panel of this.chart.panels) {
      for (const mark of panel.marks) {
        if (!shown(mark) || !READ[mark.kind]) continue;
        const value = READ[mark.kind](mark, x, panel);
        if (value === undefined) continue;
        if (!columns.includes(mark.name)) columns.push(mark.name);
        const key = mark.variant === undefined ? -1 : mark.variant;
        if (!rows.has(key)) rows.set(key, {});
        rows.get(key)[mark.name] = value;
      }
    }
    const head = make("tr", {}, make("th", { scope: "col" }, say(x, this.chart.x.unit)),
      ...columns.map((c) => make("th", { scope: "col" }, c)));
    const body = [...rows].sort((a, b) => a[0] - b[0]).map(([v, values]) => make("tr", {},
      make("th", { scope: "row" }, ...(v < 0 ? [this.chart.variant === undefined && rows.size > 1 ? "all" : ""]
        : [make("i", { class: `key ${colour(v)}` }), DATA.variants[v]])),
      ...columns.map((c) => make("td", {}, values[c] === undefined ? "" : values[c]))));
    this.readout.replaceChildren(make("table", {}, head, ...body));
  }
}
