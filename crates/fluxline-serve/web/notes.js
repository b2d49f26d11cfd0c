// Notes of the program and of operators, and the faults of files.
import { at, make } from "./dom.js";
import { store } from "./store.js";

let drawn = "";

export function drawNotes() {
  const { notes, remarks, faults = [], sentence } = store.state;
  const lines = [
    ...faults.map((text) => ["fault", `fault: ${text}`]),
    ...(sentence ? [["", sentence]] : []),
    ...notes.map((text) => ["", text]),
    ...remarks.map(({ at_ns, text }) => ["said", `${new Date(at_ns / 1e6).toLocaleTimeString()} ${text}`]),
  ];
  const key = JSON.stringify(lines);
  if (key === drawn) return;
  drawn = key;
  at("notes").replaceChildren(...lines.map(([style, text]) => make("li", style ? { class: style } : {}, text)));
}
