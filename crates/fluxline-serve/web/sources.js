// The table of sources.
import { at, put, rows } from "./dom.js";
import { age, count, si } from "./numbers.js";
import { store } from "./store.js";

/** Returns the sentence of the active alarm about a source, if there is one. */
function alarmOf(label) {
  const { alarms = [] } = store.state.health ?? {};
  return alarms.find((one) => one.about === label && one.state === "active")?.sentence;
}

const lastPacket = (ms) => (ms < 1000 ? "< 1 s ago" : `${age(ms / 1000)} ago`);

export function drawSources() {
  const wanted = at("filter").value.toLowerCase();
  const shown = store.state.sources.filter((source) => source.label.toLowerCase().includes(wanted));
  const live = store.mode === "live";
  at("sources").classList.toggle("recorded", !live);
  const lines = rows(at("sources").tBodies[0], shown.length, 8, (cell) => cell > 0 && cell < 7);
  shown.forEach((source, index) => {
    const row = lines[index];
    const { cells } = row;
    if (row.tabIndex !== 0) row.tabIndex = 0;
    if (row.dataset.source !== String(source.number)) row.dataset.source = source.number;
    row.classList.toggle("chosen", source.number === store.chosen);
    const silent = source.silent_ms > 2000 && live && store.state.state !== "stopped";
    const alarm = live ? alarmOf(source.label) : undefined;
    const texts = [source.label, si(source.rate, ""), count(source.packets), count(source.lost),
      count(source.missing), count(source.restarts), live ? lastPacket(source.silent_ms) : "",
      silent ? `silent for ${age(source.silent_ms / 1000)}` : source.state];
    texts.forEach((text, cell) => put(cells[cell], text));
    cells[3].classList.toggle("bad", source.lost > 0);
    cells[4].classList.toggle("bad", source.missing > 0);
    cells[5].classList.toggle("warn", source.restarts > 0);
    cells[6].classList.toggle("bad", silent);
    cells[7].className = silent || alarm || source.state === "dead" ? "bad" : "";
    if (row.title !== (alarm ?? "")) row.title = alarm ?? "";
  });
}

/** Calls `choose` with the number of a source that is clicked or entered. */
export function listenSources(choose) {
  const of = (row) => { if (row) choose(Number(row.dataset.source)); };
  at("sources").addEventListener("click", (event) => of(event.target.closest("tr[data-source]")));
  at("sources").addEventListener("keydown", (event) => {
    const row = event.target.closest("tr[data-source]");
    if (event.key === "Enter") of(row);
    const next = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key];
    if (next) { event.preventDefault(); next.focus(); }
  });
  at("filter").addEventListener("input", () => { if (store.state) drawSources(); });
}
