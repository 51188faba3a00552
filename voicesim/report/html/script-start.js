// --- stalls, switches ------------------------------------------------------------------------------

function explain(chart, id) { // what caused a stall, in words, and its row of the table
  const stall = chart.stalls.find((each) => each.id === id);
  const said = document.getElementById(`${chart.id}-cause`);
  if (said) said.textContent = stall.label;
  document.querySelectorAll(`tr[data-chart="${chart.id}"]`).forEach((row) => {
    row.classList.toggle("chosen", row.id === id);
  });
}

function look(row) { // the axis around a stall
  const plot = drawn.get(row.dataset.chart);
  const from = Number(row.dataset.from), to = Number(row.dataset.to), around = Math.max(3 * (to - from), 1);
  plot.see(from - around, to + around);
  explain(plot.chart, row.id);
  plot.canvas.scrollIntoView({ block: "nearest" });
}

document.querySelectorAll("tr[data-chart] button").forEach((button) => {
  button.addEventListener("click", () => look(button.closest("tr")));
});

function redraw() {
  for (const plot of drawn.values()) plot.draw();
}

document.querySelectorAll("input[data-switch]").forEach((box) => {
  box.checked = true;
  box.addEventListener("change", () => {
    const variant = Number(box.dataset.switch);
    if (box.checked) hidden.delete(variant); else hidden.add(variant);
    document.querySelectorAll(`[data-variant="${variant}"]`).forEach((node) => { node.hidden = !box.checked; });
    redraw();
  });
});

const charts = new Map(DATA.charts.map((chart) => [chart.id, chart]));
document.querySelectorAll("[data-chart].chart").forEach((room) => {
  drawn.set(room.dataset.chart, new Plot(room, charts.get(room.dataset.chart)));
});

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth !== width) { width = window.innerWidth; redraw(); }
});
window.addEventListener("beforeprint", () => 
  document.querySelectorAll("details.paper").forEach((d) => { d.open = true; }));
document.documentElement.dataset.ready = "yes";
