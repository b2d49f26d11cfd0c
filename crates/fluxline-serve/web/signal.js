// Waveform, spectrum, histogram and image of a field of the chosen source.
import { chart, remove } from "./charts.js";
import { at, make, put } from "./dom.js";
import { drawImage } from "./image.js";
import { ask, query, store } from "./store.js";

let plots = null;
let offered = "";
let asked = 0;   // the newest question: answers to older ones are not drawn

/** Offers the numeric fields of a packet; those of records first. */
export function offerFields({ curves, fields }) {
  const records = curves.map(({ name, unit }) => ({ name, unit, of: "each record" }));
  const header = fields.filter(({ value }) => typeof value === "number").map(({ name, unit }) => ({ name, unit, of: "each packet" }));
  const all = [...records, ...header.filter(({ name }) => !records.some((one) => one.name === name))];
  const key = JSON.stringify([store.chosen, all]);
  if (key === offered) return;
  offered = key;
  const options = () => all.map(({ name, unit, of }) => make("option", { value: name }, `${name}${unit ? ` [${unit}]` : ""}, ${of}`));
  for (const id of ["field", "x-field", "y-field"]) {
    const select = at(id);
    const before = select.value;
    select.replaceChildren(...(id === "field" ? [] : [make("option", { value: "" }, "–")]), ...options());
    select.value = before;
    if (select.selectedIndex < 0) select.selectedIndex = 0;
  }
  drawSignal();
}

function make4() {
  plots?.forEach(remove);
  plots = [
    chart(at("waveform"), [{ label: "value", colour: "--blue" }], { unit: "sample" }),
    chart(at("spectrum"), [{ label: "dB", colour: "--blue" }], { unit: at("sample-rate").value > 0 ? "Hz" : "of the sample rate" }),
    chart(at("histogram"), [{ label: "values", colour: "--sky" }], { unit: "value", bars: true }),
  ];
}

function drawCurves(signal) {
  const [waveform, spectrum, histogram] = plots;
  waveform.setData([signal.waveform.map((_, index) => index), signal.waveform]);
  const rate = Number(at("sample-rate").value) || 1;
  const all = Math.max(1, 2 * (signal.spectrum_db.length - 1));
  spectrum.setData([signal.spectrum_db.map((_, index) => index / all * rate), signal.spectrum_db]);
  const { low, width, counts, skipped } = signal.histogram;
  histogram.setData([[...counts, 0].map((_, index) => low + index * width), [...counts, null]]);
  put(at("histogram-words"), `${counts.reduce((sum, of) => sum + of, 0).toLocaleString("en")} values${skipped ? `, ${skipped} are not numbers` : ""}`);
}

export async function drawSignal() {
  const field = at("field").value;
  if (store.chosen === null || !field || document.hidden) return;
  const [x, y] = [at("x-field").value, at("y-field").value];
  const from = store.mode === "run" ? { from: store.event } : {};
  const source = store.chosen;
  const mine = ++asked;
  const answer = await ask(`/signal?${query({ source, field, ...from })}`);
  if (!answer?.ok || mine !== asked) return;
  const signal = answer.body;
  at("signal").hidden = false;
  if (!plots) make4();
  put(at("signal-of"), `${signal.packets.toLocaleString("en")} packets, one value for each ${signal.per}`);
  drawCurves(signal);
  const plane = x && y ? await ask(`/signal?${query({ source, field, x, y, ...from })}`) : null;
  if (mine !== asked) return;
  put(at("image-title"), plane ? `Sum of ${field} by ${x} (column) and ${y} (row)` : "Packets below each other");
  drawImage(at("image"), plane?.ok ? plane.body.image : signal.image, "image-words");
}

export function listenSignal() {
  for (const id of ["field", "x-field", "y-field"]) at(id).addEventListener("change", drawSignal);
  at("sample-rate").addEventListener("change", () => { if (plots) make4(); drawSignal(); });
}
