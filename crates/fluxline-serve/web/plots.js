// Plots over the whole run: those of the experiment, live and of finished runs.
import { chart, remove } from "./charts.js";
import { at, make, put, scale } from "./dom.js";
import { drawImage } from "./image.js";
import { count, date, plain } from "./numbers.js";
import { ask, store } from "./store.js";

let boxes = [];      // {key, box, words, chart or canvas} of each plot
let asked = 0;       // the newest question: answers to older ones are not drawn
let done = "";       // the finished run whose plots are drawn

const PARTS = [["underflow", "below the range"], ["overflow", "above it"], ["not_a_number", "without a number"], ["cut", "not chosen by `where`"]];

/** Returns what a person must know to read a plot. */
export function wordsOf({ kind, x, y, where, events, mean, sd, values, packets, data, bins }) {
  const of = y ? `of ${y} ${kind === "profile" ? "by" : "against"} ${x}` : x && `of ${x}`;
  const words = [[kind, of, where && `where ${where}`, events && `in events with ${events}`].filter(Boolean).join(" ")];
  words.push(`${count(values.entries)} entries`);
  if (mean !== null && mean !== undefined) words.push(`mean ${plain(mean)}`, `sd ${plain(sd)}`);
  for (const [key, text] of PARTS) if (values[key]) words.push(`${count(values[key])} ${text}`);
  if (packets.cut) words.push(`${count(packets.cut)} packets not chosen by \`events\``);
  const lacks = packets.skipped ? `; filled from ${Math.min(99.9, (1 - packets.skipped / packets.seen) * 100).toFixed(1)} % of the packets` : "";
  const large = data ? "" : `; its ${count(bins)} bins are too many for the page, plots.json has them`;
  return words.join(", ") + lacks + large;
}

/** Returns the words of a reference: what was scaled, and by how much. */
export function referenceWords({ kind, values, data }) {
  if (!data?.reference) return "";
  const { run, counts } = data.reference;
  const entries = counts.reduce((sum, one) => sum + one, 0);
  return kind === "histogram"
    ? `Dashed: ${run}, ${count(entries)} entries, scaled to ${count(values.entries)}.`
    : `Dashed: ${run}, ${count(entries)} entries.`;
}

const means = (counts, sums) => counts.map((of, bin) => (of ? sums[bin] / of : null));

/** Returns steps: each bin's value from its edge to the next one; none where a logarithm has none. */
const steps = (values, log) => {
  const drawn = values.map((value) => (log && !(value > 0) ? null : value));
  return [...drawn, drawn.at(-1) ?? null];
};

/** Returns the curves of a plot: [x, y, y of the reference or further ones]. */
export function curvesOf({ kind, values, data }, log) {
  const { counts, sums, edges, reference } = data;
  if (kind === "histogram") {
    const all = reference?.counts.reduce((sum, one) => sum + one, 0) ?? 0;
    const scaled = reference?.counts.map((one) => (all ? one * values.entries / all : null));
    return [edges, steps(counts, log), ...(scaled ? [steps(scaled, log)] : [])];
  }
  if (kind === "profile") {
    const old = reference?.sums ? [steps(means(reference.counts, reference.sums), log)] : [];
    return [edges, steps(means(counts, sums), log), ...old];
  }
  const [origin, width] = [(data.origin_ns ?? 0) / 1e9, data.width_ns / 1e9];
  if (kind === "rate") {
    const times = [...counts, 0].map((_, bin) => origin + bin * width);
    return [times, steps(counts.map((of) => of / width), log)];
  }
  const middles = counts.map((_, bin) => origin + (bin + 0.5) * width);
  const positive = (all) => all.map((value) => (log && !(value > 0) ? null : value));
  return [middles, positive(means(counts, sums)), positive(data.least), positive(data.greatest)];
}

const label = { histogram: "entries", profile: "mean", rate: "entries/s", trace: "mean" };

function seriesOf({ kind, data }) {
  const first = { label: label[kind], colour: "--blue" };
  if (kind === "trace") return [first, { label: "least", colour: "--sky" }, { label: "greatest", colour: "--sky" }];
  const hasOld = data.reference && (kind === "histogram" || data.reference.sums);
  return hasOld ? [first, { label: "reference", colour: "--quiet", dash: true }] : [first];
}

/** Returns the counts of an image as drawImage takes them: y grows upwards. */
export function cellsOf({ data }, log) {
  const [columns, rows] = [data.edges.length - 1, data.y_edges.length - 1];
  const { counts } = data;
  const greatest = counts.reduce((most, one) => Math.max(most, one), 0);
  const size = log ? (one) => Math.log1p(one) : (one) => one;
  const level = (one) => (one ? Math.max(1, Math.round(size(one) / size(greatest) * 255)) : 0);
  let cells = "";
  for (let row = rows - 1; row >= 0; row--) {
    for (let column = 0; column < columns; column++) cells += level(counts[column * rows + row]).toString(16).padStart(2, "0");
  }
  return { columns, cells, least: 0, greatest };
}

function makeBox(plot, number, log) {
  const [words, old, place] = [make("p", { class: "quiet" }), make("p", { class: "quiet" }), make("div", { class: "chart" })];
  const box = make("div", { class: "plot" });
  box.append(make("h3", {}, plot.name), place, words, old);
  at("plots").append(box);
  const made = { box, words, old };
  if (!plot.data) return made;
  if (plot.kind === "image") {
    const [canvas, id] = [make("canvas", { class: "plot-image", role: "img", "aria-label": plot.name }), `plot-cells-${number}`];
    place.append(canvas, make("p", { id, class: "quiet" }));
    return { ...made, canvas, id };
  }
  const time = plot.kind === "trace" || plot.kind === "rate";
  const logs = { x: plot.log, y: log };
  return { ...made, chart: chart(place, seriesOf(plot), { time, unit: time ? "" : plot.x, logs, stepped: plot.kind !== "trace" }) };
}

function clear() {
  boxes.forEach((one) => one.chart && remove(one.chart));
  at("plots").replaceChildren();
  boxes = [];
}

function fill(plot, made, log) {
  put(made.words, wordsOf(plot));
  put(made.old, referenceWords(plot));
  if (made.canvas) {
    drawImage(made.canvas, cellsOf(plot, log), made.id);
    const { edges, y_edges } = plot.data;
    put(made.old, `x from ${plain(edges[0])} to ${plain(edges.at(-1))}, y from ${plain(y_edges[0])} (below) to ${plain(y_edges.at(-1))}`);
  } else if (made.chart) {
    made.chart.setData(curvesOf(plot, log));
  }
}

let madeFor = "";

function drawAll({ plots }) {
  const log = at("plots-log").checked;
  const key = JSON.stringify([store.base, log, scale(), plots.map(({ name, kind, log, x, data }) => [name, kind, log, x, data === null, Boolean(data?.reference)])]);
  if (key !== madeFor) {
    clear();
    madeFor = key;
    boxes = plots.map((plot, number) => makeBox(plot, number, log));
  }
  plots.forEach((plot, number) => fill(plot, boxes[number], log));
}

/** Draws the plots; of a run that has ended, once. */
export async function drawPlots() {
  if (store.mode === "list" || document.hidden) return;
  const base = store.base;
  if (store.mode === "run" && done === base) return;
  const mine = ++asked;
  const answer = await ask("/plots");
  if (!answer || mine !== asked || base !== store.base) return;
  const has = answer.ok && answer.body.plots?.length > 0;
  at("plots-panel").hidden = !has;
  if (!has) { done = answer.ok || store.state?.state === "finished" ? base : ""; return; }
  try {
    drawAll(answer.body);
    put(at("plots-words"), answer.body.ended ? "" : `so far, at ${date(answer.body.at_ns)}`);
    done = answer.body.ended ? base : "";
  } catch (error) {
    done = base;  // a damaged file: drawing it again draws nothing more
    put(at("plots-words"), `plots.json is damaged: ${error.message}`);
  }
}

/** Forgets the plots of the run that was shown. */
export function clearPlots() {
  asked += 1;
  [madeFor, done] = ["", ""];
  clear();
  at("plots-panel").hidden = true;
}

export function listenPlots() {
  at("plots-log").addEventListener("change", () => { done = ""; drawPlots(); });
}
