// The events of a run folder, a page at a time.
import { at, put, rows } from "./dom.js";
import { time } from "./numbers.js";
import { ask, query, store } from "./store.js";

let from = 0;
let next = null;
const before = [];

export async function drawEvents() {
  if (store.mode !== "run") return;
  const only = at("only").checked ? { only: "incomplete" } : {};
  const answer = await ask(`/events?${query({ from, count: 100, ...only })}`);
  if (!answer?.ok) return;
  const { events } = answer.body;
  next = answer.body.next;
  const lines = rows(at("events").tBodies[0], events.length, 6, (cell) => [0, 3, 4].includes(cell));
  events.forEach((event, index) => {
    const row = lines[index];
    row.tabIndex = 0;
    row.dataset.event = event.number;
    row.classList.toggle("chosen", event.number === store.event);
    const texts = [String(event.number), event.key ?? "–", event.status, String(event.packets), time(event.delay_ns), event.missing];
    texts.forEach((text, cell) => put(row.cells[cell], text));
    row.cells[2].className = event.status === "complete" ? "" : "bad";
  });
  at("events-next").disabled = next === null;
  at("events-back").disabled = from === 0;
}

export function listenEvents(choose) {
  const go = (to) => { from = to; drawEvents(); };
  at("events-next").addEventListener("click", () => { if (next !== null) { before.push(from); go(next); } });
  at("events-back").addEventListener("click", () => go(before.pop() ?? 0));
  at("only").addEventListener("change", () => { before.length = 0; go(0); });
  at("go-to").addEventListener("submit", (event) => {
    event.preventDefault();
    before.push(from);
    go(Math.max(0, Number(event.target.elements.number.value) || 0));
  });
  const of = (row) => { if (row) choose(Number(row.dataset.event)); };
  at("events").addEventListener("click", (event) => of(event.target.closest("tr[data-event]")));
  at("events").addEventListener("keydown", (event) => { if (event.key === "Enter") of(event.target.closest("tr[data-event]")); });
}
