// Rates over time, of a live run and of a finished one; losses have an axis of their own.
import { chart, remove } from "./charts.js";
import { at, make, put, scale } from "./dom.js";
import { ask, query, store } from "./store.js";

const PANELS = [
  { title: "Losses", zero: true, curves: [
    { name: "lost", of: "greatest", label: "lost packets/s", colour: "--loss", alert: true },
    { name: "incomplete", of: "greatest", label: "incomplete events/s", colour: "--warn", alert: true, dash: true }] },
  { title: "Packets", curves: [
    { name: "packets", of: "least", label: "packets/s, least", colour: "--sky" },
    { name: "packets", of: "greatest", label: "packets/s, most", colour: "--blue" }] },
  { title: "Events", curves: [
    { name: "events", of: "least", label: "events/s, least", colour: "--sky" },
    { name: "events", of: "greatest", label: "events/s, most", colour: "--blue" }] },
  { title: "Recorded", curves: [
    { name: "recorded", of: "least", label: "byte/s, least", colour: "--sky" },
    { name: "recorded", of: "greatest", label: "byte/s, most", colour: "--blue" }] },
];
// Series that have a panel above, or say the same as one.
const usual = new Set(["bits", ...PANELS.flatMap(({ curves }) => curves.map(({ name }) => name))]);
// Most panels of other series.
const OTHERS_MAX = 8;

let made = [];       // {panel, plot, place} of each panel
let madeFor = "";    // what they were made for
let range = null;    // [from, to] that was drawn over a finished run, in its ticks; null: all of it
let asked = 0;       // the newest question: answers to older ones are not drawn
let zooms = null;    // zooms to a range of seconds since 1970

/** Returns the panels of these series: the usual ones, then one for each other series. */
export function panelsOf(series) {
  const there = PANELS.filter(({ curves }) => curves.some(({ name }) => series[name]));
  const others = Object.keys(series).filter((name) => !usual.has(name)).slice(0, OTHERS_MAX);
  return [...there, ...others.map((name) => ({
    title: name.replaceAll("_", " "),
    curves: [{ name, of: "least", label: `${series[name].unit}, least`, colour: "--sky" }, { name, of: "greatest", label: `${series[name].unit}, most`, colour: "--blue" }],
  }))];
}

/**
 * Returns the times [s since 1970] of the values of a part. `history` says when its tick 0 was, or
 * else `newest` does: {tick, at_ns} of a snapshot.
 */
export function timesOfPart(history, part, newest) {
  const tick = (history.tick_ns ?? 1e8) / 1e9;
  const began = history.began_ns !== undefined ? history.began_ns / 1e9 : newest.at_ns / 1e9 - newest.tick * tick;
  return part.greatest.map((_, index) => began + (part.first + index * part.step) * tick);
}

/** Makes the charts anew where their number or the size of the type is another one. */
function prepare(panels) {
  const key = JSON.stringify([store.base, panels, scale()]);
  if (key === madeFor) return;
  clear();
  madeFor = key;
  made = panels.map((panel) => {
    const place = make("div", { class: "chart" });
    const box = make("div", { class: "curve" });
    box.append(make("h3", {}, panel.title), place);
    at("curves").append(box);
    const select = store.mode === "run" ? (from, to) => zooms?.(from, to) : null;
    return { panel, plot: chart(place, panel.curves, { time: true, zero: panel.zero, select, height: 160 }) };
  });
}

function clear() {
  made.forEach(({ plot }) => remove(plot));
  at("curves").replaceChildren();
  [made, madeFor] = [[], ""];
}

/** Returns the curves of a panel on the times of its first one. */
function dataOf({ curves }, history, newest) {
  const parts = curves.map(({ name, of }) => history.series[name]?.[of]);
  const first = history.series[curves.find(({ name }) => history.series[name]).name];
  return [timesOfPart(history, first, newest), ...parts.map((part) => part ?? first.greatest.map(() => null))];
}

function wanted({ tick }) {
  if (store.mode === "run") return range ? { from: range[0], to: range[1] } : {};
  const seconds = Number(at("span").value);
  return { from: seconds ? Math.max(0, tick - seconds * 10) : 0, to: tick };
}

export async function drawHistory() {
  if (!store.state || store.mode === "list" || document.hidden) return;
  const newest = store.state;
  const mine = ++asked;
  const answer = await ask(`/history?${query({ ...wanted(newest), points: Math.min(2000, Math.round(innerWidth / 2)) })}`);
  if (!answer || mine !== asked) return;
  put(at("history-words"), answer.ok ? "" : answer.body.error ?? "");
  at("curves-wider").hidden = !range;
  if (!answer.ok) return store.mode === "run" ? clear() : undefined;
  const history = answer.body;
  zooms = (from, to) => {
    const tick = (seconds) => (seconds - history.began_ns / 1e9) / (history.tick_ns / 1e9);
    range = [Math.max(0, Math.floor(tick(from))), Math.ceil(tick(to))];
    drawHistory();
  };
  prepare(panelsOf(history.series));
  // One in a frame, so that a slow browser still answers in between.
  for (const { panel, plot } of made) {
    plot.setData(dataOf(panel, history, newest));
    await new Promise(requestAnimationFrame);
    if (mine !== asked) return;
  }
}

/** Forgets the curves of the run that was shown. */
export function clearHistory() {
  range = null;
  asked += 1;
  clear();
}

export function listenHistory() {
  at("span").addEventListener("change", drawHistory);
  at("curves-wider").addEventListener("click", () => { range = null; drawHistory(); });
}
