// The table of sources.
import { at, put, rows } from "./dom.js";
import { count, si } from "./numbers.js";
import { store } from "./store.js";

export function drawSources() {
  const wanted = at("filter").value.toLowerCase();
  const shown = store.state.sources.filter((source) => source.label.toLowerCase().includes(wanted));
  const lines = rows(at("sources").tBodies[0], shown.length, 7, (cell) => cell > 0 && cell < 6);
  shown.forEach((source, index) => {
    const row = lines[index];
    const { cells } = row;
    if (row.tabIndex !== 0) row.tabIndex = 0;
    if (row.dataset.source !== String(source.number)) row.dataset.source = source.number;
    row.classList.toggle("chosen", source.number === store.chosen);
    const silent = source.silent_ms > 2000 && store.mode === "live" && store.state.state !== "stopped";
    const texts = [source.label, si(source.rate, ""), count(source.packets), count(source.lost),
      count(source.missing), count(source.restarts),
      silent ? `silent for ${(source.silent_ms / 1000).toFixed(0)} s` : source.state];
    texts.forEach((text, cell) => put(cells[cell], text));
    cells[3].classList.toggle("bad", source.lost > 0);
    cells[4].classList.toggle("bad", source.missing > 0);
    cells[5].classList.toggle("warn", source.restarts > 0);
    cells[6].className = silent || source.state === "dead" ? "bad" : "";
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
