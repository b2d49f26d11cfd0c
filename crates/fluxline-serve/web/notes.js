// Notes of the program and of operators, and the faults of files.
import { at, make } from "./dom.js";
import { date, moment } from "./numbers.js";
import { store } from "./store.js";

let drawn = "";

export function drawNotes() {
  const { notes, remarks, faults = [], at_ns: now } = store.state;
  const when = (ns) => (now ? moment(ns, now) : date(ns));
  const lines = [
    ...faults.map((text) => ["fault", `fault: ${text}`]),
    ...notes.map((text) => ["", text]),
    ...remarks.map(({ at_ns, text }) => ["said", `${when(at_ns)} ${text}`]),
  ];
  // A visitor has no line to write in, so an empty panel would say nothing.
  at("notes-panel").hidden = lines.length === 0 && !store.operator;
  at("remark").hidden = store.mode !== "live" || !store.operator;
  const key = JSON.stringify(lines);
  if (key === drawn) return;
  drawn = key;
  at("notes").replaceChildren(...lines.map(([style, text]) => make("li", style ? { class: style } : {}, text)));
}
