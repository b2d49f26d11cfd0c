// A field over the whole run, zoomed from hours to single samples.
import { chart } from "./charts.js";
import { at, put } from "./dom.js";
import { count, date, si, time } from "./numbers.js";
import { ask, query, store } from "./store.js";

let plot = null;
let of = "";                       // source and field that are shown
let range = { from: 0, to: null }; // samples that are shown; null: to the end
let before = [];                   // wider ranges
let asked = 0;                     // the newest question: answers to older ones are not drawn

/** Shows the chosen field from its first sample to its last. */
export function startTrace() {
  range = { from: 0, to: null };
  before = [];
  drawTrace();
}

function zoom(from, to) {
  before.push(range);
  range = { from: Math.max(0, Math.floor(from)), to: Math.ceil(to) };
  drawTrace();
}

function wider() {
  range = before.pop() ?? { from: 0, to: null };
  drawTrace();
}

export async function drawTrace() {
  const field = at("field").value;
  if (!of || !field || store.chosen === null || document.hidden) return;
  const key = `${store.chosen} ${field}`;
  if (key !== of) { of = key; range = { from: 0, to: null }; before = []; }
  const began = performance.now();
  const { from, to } = range;
  const mine = ++asked;
  const answer = await ask(`/trace?${query({ source: store.chosen, field, from, ...(to === null ? {} : { to }), points: 2000 })}`);
  if (!answer || mine !== asked) return;
  if (!answer.ok || answer.body.fault) return put(at("trace-words"), answer.body.error ?? answer.body.fault);
  const { samples, first, step, least, greatest, from_ns, to_ns, complete, memory_bytes } = answer.body;
  if (!complete && store.mode === "run") setTimeout(drawTrace, 300);
  plot ??= chart(at("trace"), [{ label: "least", colour: "--sky" }, { label: "greatest", colour: "--blue" }], { unit: "sample", select: zoom, height: 200 });
  plot.setData([least.map((_, index) => first + index * step), least, greatest]);
  const lasts = from_ns === null ? "" : `, ${time(to_ns - from_ns)} shown from ${date(from_ns)}`;
  put(at("trace-words"), `${field}: ${count(samples)} samples${complete ? "" : " so far"}, ${count(step)} per point${lasts}; `
    + `${(performance.now() - began).toFixed(0)} ms, ${si(memory_bytes, "B")} of memory`);
}

export function listenTrace() {
  at("trace-show").addEventListener("click", () => { of = `${store.chosen} ${at("field").value}`; startTrace(); });
  at("trace-wider").addEventListener("click", wider);
  at("field").addEventListener("change", drawTrace);
}

/** Zooms by keys: + and - about the middle. */
export function zoomBy(factor) {
  if (!plot) return;
  const [low, high] = [plot.data[0][0] ?? 0, plot.data[0].at(-1) ?? 0];
  const [middle, half] = [(low + high) / 2, (high - low) / 2 * factor];
  zoom(middle - half, middle + half);
}
