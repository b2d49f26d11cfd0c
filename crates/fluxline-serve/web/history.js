// Rates of a live run over time.
import { chart } from "./charts.js";
import { at } from "./dom.js";
import { ask, query, store } from "./store.js";

const ticksPerSecond = 10;
let packets = null;
let events = null;

function begin() {
  packets = chart(at("chart-packets"), [
    { label: "packets/s, least", colour: "--sky" },
    { label: "packets/s, most", colour: "--blue" },
    { label: "lost/s", colour: "--loss" },
  ], { time: true });
  events = chart(at("chart-events"), [
    { label: "events/s", colour: "--good" },
    { label: "incomplete/s", colour: "--loss" },
  ], { time: true });
}

export async function drawHistory() {
  if (!store.state || store.mode !== "live" || document.hidden) return;
  if (!packets) begin();
  const seconds = Number(at("span").value);
  const to = store.state.tick;
  const from = seconds ? Math.max(0, to - seconds * ticksPerSecond) : 0;
  const answer = await ask(`/history?${query({ from, to, points: Math.round(innerWidth / 2) })}`);
  if (!answer?.ok) return;
  const { series } = answer.body;
  const begun = store.state.at_ns / 1e9 - to / ticksPerSecond;
  const times = (part) => part.greatest.map((_, index) => begun + (part.first + index * part.step) / ticksPerSecond);
  packets.setData([times(series.packets), series.packets.least, series.packets.greatest, series.lost.greatest]);
  events.setData([times(series.events), series.events.greatest, series.incomplete.greatest]);
}
