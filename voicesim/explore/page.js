// What the user does becomes a question; the newest answer is drawn.

const state = JSON.parse(document.getElementById("state").textContent);
const $ = id => document.getElementById(id);
const REST = 500; // ms without a move before more replications are played
const values = {}; // variant -> slider key -> position
let asking = null, next = null, resting = null;

function begin() {
  document.title = `${state.title} - voicesim explore`;
  $("title").textContent = state.title;
  $("file").textContent = state.file;
  $("clean").textContent = state.clean;
  const names = Object.keys(state.variants);
  for (const name of names) $("variant").add(new Option(name, name));
  $("beside").add(new Option("nothing", ""));
  for (const name of names) $("beside").add(new Option(name, name));
  $("variant").value = state.variant;
  $("beside").value = state.beside;
  $("variant").onchange = () => { drawSliders(); want("once"); };
  $("beside").onchange = () => want("once");
  $("reset").onclick = () => { delete values[$("variant").value]; drawSliders(); want("once"); };
  $("whole").onclick = () => want("whole");
  $("copy").onclick = copy;
  $("controls").onsubmit = event => event.preventDefault();
  drawSliders();
  want("once");
}

// --- sliders

function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function withUnit(number, unit) {
  return `${+number.toPrecision(12)}${unit === "ms" ? " ms" : unit}`;
}

function drawSliders() {
  const variant = state.variants[$("variant").value], groups = new Map();
  for (const slider of variant.sliders) {
    if (!groups.has(slider.group)) groups.set(slider.group, make("fieldset", {}, make("legend", {textContent: slider.group})));
    groups.get(slider.group).append(drawSlider(slider));
  }
  $("sliders").replaceChildren(...groups.values());
  const length = `Each move plays, once: ${variant.plays}. After a rest, ${state.several} replications of the same.` +
    (variant.short ? ` A short play differs from the whole: the ${variant.whole} of the file decide.` : "");
  const both = variant.sliders.some(s => s.group === "callers") ? " Who calls is the same on both sides; the other sliders move the first alone." : "";
  $("about").textContent = length + both;
}

function drawSlider(slider) {
  const mine = values[$("variant").value] ??= {};
  const id = `slider-${slider.key}`, out = make("output"), ends = `${id}-ends`;
  out.htmlFor = id;
  const input = make("input", {type: "range", id, min: slider.low, max: slider.high, step: slider.step});
  input.value = mine[slider.key] ?? slider.value;
  input.dataset.key = slider.key;
  input.setAttribute("aria-describedby", ends);
  const box = make("div", {className: "slider"},
    make("div", {className: "top"}, make("label", {htmlFor: id, textContent: slider.label}), out),
    input,
    make("div", {className: "ends faint", id: ends},
      make("span", {textContent: withUnit(slider.low, slider.unit)}),
      make("span", {textContent: `in the file ${withUnit(slider.value, slider.unit)}`}),
      make("span", {textContent: withUnit(slider.high, slider.unit)})));
  const show = () => {
    const number = Number(input.value), text = withUnit(number, slider.unit);
    out.textContent = text;
    input.setAttribute("aria-valuetext", text);
    box.classList.toggle("moved", number !== slider.value);
  };
  input.oninput = () => { mine[slider.key] = Number(input.value); show(); want("once"); };
  show();
  return box;
}

// --- questions: one at a time while a slider is dragged, the newest at last

function want(play) {
  clearTimeout(resting);
  if (asking && asking.play === "once" && play === "once") { next = play; return; }
  if (asking) asking.stop.abort();
  ask(play);
}

async function ask(play) {
  const me = asking = {play, stop: new AbortController()};
  next = null;
  $("answer").setAttribute("aria-busy", "true");
  if (play === "whole") $("played").textContent = "Playing the whole scenario…";
  const variant = $("variant").value;
  const question = {variant, beside: $("beside").value || null, values: values[variant] || {}, play};
  try {
    const reply = await fetch("play", {
      method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(question), signal: me.stop.signal,
    });
    const found = await reply.json();
    if (asking !== me) return;
    if (reply.ok) draw(found, play); else complain(found.error);
    rest(reply.ok && follows(play, found));
  } catch (error) {
    if (asking !== me || error.name === "AbortError") return;
    complain("voicesim explore does not answer; is it still running?");
    rest("");
  }
}

// What is played next if nothing moves: the side that is missing, then more replications.
function follows(play, found) {
  if (play === "once" && $("beside").value && found.names.length < 2) return "both";
  return play === "once" || play === "both" ? "several" : "";
}

function rest(play) {
  asking = null;
  $("answer").removeAttribute("aria-busy");
  if (next) ask(next);
  else if (play === "both") ask(play);
  else if (play) resting = setTimeout(() => ask(play), REST);
}

function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = false;
}

// --- the answer

function draw(found, play) {
  $("problem").hidden = true;
  if ($("verdict").textContent !== found.verdict) $("verdict").textContent = found.verdict;
  const seconds = found.seconds < 10 ? found.seconds.toFixed(2) : found.seconds.toFixed(0);
  $("played").textContent = `Played: ${found.played}. Answered in ${seconds} s.`;
  const interval = found.rows.some(row => row.sides.some(side => side.low !== null));
  $("interval").textContent = interval ? "± is a 95 % interval over the replications." :
    "One replication has no interval.";
  drawFigures(found);
  drawCharts(found);
  $("warnings").replaceChildren(...found.warnings.map(text => make("li", {textContent: text})));
  $("yaml").value = found.yaml;
  $("answer").dataset.play = play;
  $("answer").dataset.count = Number($("answer").dataset.count || 0) + 1;
}

function drawFigures(found) {
  const head = make("tr", {}, make("th", {scope: "col", textContent: "figure"}));
  found.names.forEach((name, i) =>
    head.append(make("th", {scope: "col", textContent: name, className: i ? "beside-side" : "moved-side"})));
  $("figures").tHead.replaceChildren(head);
  $("figures").tBodies[0].replaceChildren(...found.rows.map((row, i) => {
    const line = make("tr", {className: i ? "" : "first"}, make("th", {scope: "row", textContent: row.title}));
    row.sides.forEach(side => line.append(make("td", {textContent: side.text})));
    line.dataset.metric = row.metric;
    return line;
  }));
}

function drawCharts({names, series}) {
  const of = name => series.sides.map(side => side[name]);
  const bin = series.bin_s >= 60 ? `${series.bin_s / 60} min` : `${series.bin_s} s`;
  const draw = (title, name, options) => chart(title, series.minutes, of(name), names, options);
  $("charts").replaceChildren(
    draw("Calls per second", "offered"),
    draw(state.live, "live"),
    draw(`Audible stalls in ${bin}`, "stalls", {least: 3}),
    draw("p99 chunk gap / audio before it; beyond 1 the listener's buffer drains", "gap", {limit: 1, most: 4}),
  );
  $("legend").replaceChildren(...names.map((name, i) => {
    const line = svg("svg", {viewBox: "0 0 32 10", "aria-hidden": "true"});
    line.append(svg("line", {class: i ? "beside" : "moved", x1: 0, x2: 32, y1: 5, y2: 5}));
    return make("span", {}, line, name);
  }));
}

async function copy() {
  try {
    await navigator.clipboard.writeText($("yaml").value);
    $("copied").textContent = "copied";
  } catch {
    $("yaml").select();
    $("copied").textContent = "selected; copy it with Ctrl-C";
  }
  setTimeout(() => { $("copied").textContent = ""; }, 3000);
}

begin();
