// The list of alarms, with the buttons to acknowledge and to shelve them.
import { inOrder, tally, timesOf } from "./condition.js";
import { post } from "./control.js";
import { at, make, put } from "./dom.js";
import { store } from "./store.js";
import { drawSymbol } from "./symbol.js";

const shelves = [[15, "15 min"], [60, "1 h"], [480, "8 h"]];
const lines = new Map();  // a button lives as long as its alarm
let mayAct = false;

function button(words, help, body) {
  const one = make("button", { type: "button", title: help }, words);
  one.addEventListener("click", () => post("/api/command", body));
  return one;
}

function makeLine(name) {
  const row = make("li", { class: "alarm" });
  const symbol = make("svg", { class: "symbol", viewBox: "0 0 32 32", "aria-hidden": "true" });
  const text = make("div", { class: "text" });
  const head = make("p");
  const [word, sentence] = [make("b"), make("span")];
  head.append(word, " ", sentence);
  const [times, advice] = [make("p", { class: "quiet" }), make("p", { class: "advice" })];
  text.append(head, times, advice);
  const actions = make("div", { class: "actions" });
  const acknowledge = button("Acknowledge", "Say that somebody knows of it", { acknowledge: name });
  const unshelve = button("Unshelve", "Let it count again", { unshelve: name });
  const shelf = make("span", { class: "shelf" });
  shelf.append(make("span", { class: "quiet" }, "Shelve"), ...shelves.map(([minutes, words]) =>
    button(words, `Leave it out of the state of the run for ${words}`, { shelve: name, minutes })));
  actions.append(acknowledge, shelf, unshelve);
  row.append(symbol, text, actions);
  return { row, symbol, word, sentence, times, advice, actions, acknowledge, shelf, unshelve };
}

/** Returns the key of an alarm: a finished run lists the same one for each time that it came. */
const keyOf = ({ name, since_ns }) => (store.mode === "live" ? name : JSON.stringify([name, since_ns]));

function drawLine(alarm, now) {
  const { name, severity, state, acknowledged, shelved_until_ns: shelved } = alarm;
  const key = keyOf(alarm);
  if (!lines.has(key)) {
    lines.set(key, makeLine(name));
    enable(lines.get(key).actions);
  }
  const line = lines.get(key);
  const style = `alarm ${severity === "alarm" ? "alarm-severe" : "alarm-warning"} ${state === "cleared" || alarm.ended ? "past" : ""} ${shelved ? "shelved" : ""}`;
  if (line.row.className !== style) line.row.className = style;
  drawSymbol(line.symbol, severity === "alarm" ? "alarm" : "warning");
  put(line.word, severity);
  put(line.sentence, String(alarm.sentence ?? name));
  put(line.times, timesOf(alarm, now));
  put(line.advice, String(alarm.advice ?? ""));
  line.actions.hidden = store.mode !== "live" || !store.operator;
  line.acknowledge.hidden = acknowledged;
  line.shelf.hidden = Boolean(shelved);
  line.unshelve.hidden = !shelved;
  return line.row;
}

/** Turns the buttons of all alarms on or off. */
export function alarmControls(on) {
  if (on === mayAct) return;
  mayAct = on;
  for (const { actions } of lines.values()) enable(actions);
}

function enable(actions) {
  for (const one of actions.querySelectorAll("button")) one.disabled = !mayAct;
}

export function drawAlarms(alarms) {
  at("alarms-panel").hidden = alarms.length === 0;
  const now = store.state?.at_ns ?? store.state?.began_ns ?? 0;
  put(at("alarms-words"), store.mode === "live" ? tally(alarms) : "of this run");
  const wanted = new Set(alarms.map(keyOf));
  for (const [key, { row }] of lines) if (!wanted.has(key)) { row.remove(); lines.delete(key); }
  const ordered = store.mode === "live" ? inOrder(alarms) : [...alarms].sort((a, b) => a.since_ns - b.since_ns);
  ordered.forEach((alarm, place) => {
    const row = drawLine(alarm, now);
    // A row that is in its place stays untouched, and so does the focus on its buttons.
    const list = at("alarms");
    if (list.children[place] !== row) list.insertBefore(row, list.children[place] ?? null);
  });
}
