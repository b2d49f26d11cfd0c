// Slow control values: the newest of each name, with its unit and its age.
import { at, put, rows } from "./dom.js";
import { age, plain } from "./numbers.js";
import { store } from "./store.js";

/** Returns the cells of the table: name, value, unit, age. */
export function cellsOf(slow, now_ns) {
  return Object.entries(slow.values).map(([name, of]) => [
    name,
    of.text ?? plain(of.value),
    of.unit ?? "",
    age((now_ns - of.arrival_ns) / 1e9),
  ]);
}

export function drawSlow() {
  const { slow_control: slow, at_ns: now } = store.state;
  at("slow-panel").hidden = !slow;
  if (!slow) return;
  const cells = cellsOf(slow, now);
  const none = `nothing yet on ${slow.listens}`;
  const more = `the first ${cells.length} of ${slow.names} names`;
  put(at("slow-words"), cells.length === 0 ? none : cells.length < slow.names ? more : "");
  const drawn = rows(at("slow"), cells.length, 4, (cell) => cell === 1 || cell === 3);
  cells.forEach((texts, row) => texts.forEach((text, cell) => put(drawn[row].cells[cell], text)));
}
