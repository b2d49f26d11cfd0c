// Delays of events by class, each twice as long as the one before.
import { at, make, put, rows } from "./dom.js";
import { count, time } from "./numbers.js";
import { store } from "./store.js";

export function drawDelays() {
  if (!store.state) return;
  const { delay_counts = [], built, incomplete } = store.state.events;
  const share = built ? `${(100 * (built - incomplete) / built).toPrecision(4)} % of ${count(built)} events are complete` : "no event yet";
  put(at("completeness"), share);
  const most = Math.max(1, ...delay_counts.map((one) => one.events));
  const lines = rows(at("delays").tBodies[0], delay_counts.length, 3, (cell) => cell === 2);
  delay_counts.forEach(({ up_to_ns, events }, index) => {
    const [limit, bar, number] = lines[index].cells;
    put(limit, `up to ${time(up_to_ns)}`);
    if (!bar.firstChild) bar.append(make("div", { class: "bar" }));
    bar.firstChild.style.width = `${100 * events / most}%`;
    put(number, count(events));
  });
  const missing = store.state.sources.filter((source) => source.missing > 0).sort((a, b) => b.missing - a.missing);
  const words = missing.slice(0, 8).map((source) => `${source.label}: ${count(source.missing)}`);
  put(at("missing-sources"), words.length ? `Events that lack a source: ${words.join("; ")}${missing.length > 8 ? `; ${missing.length - 8} more sources` : ""}.` : "");
}
