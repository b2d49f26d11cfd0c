// The numbers at the top.
import { at, make, put } from "./dom.js";
import { count, countWithin, si, time } from "./numbers.js";
import { store } from "./store.js";

// Letters of a number that fit into a tile of the least width.
const LETTERS = 11;

/** Returns a share in percent; one that is there but tiny is not called 0. */
function percent(part, all) {
  const share = (part / all) * 100;
  return share > 0 && share < 0.001 ? "< 0.001 %" : `${Number(share.toPrecision(2))} %`;
}

function diskLasts({ free_bytes, rates }) {
  if (free_bytes === null || !(rates.recorded.value > 0)) return "";
  const hours = free_bytes / rates.recorded.value / 3600;
  return hours > 1000 ? "" : `lasts ${hours >= 1 ? `${hours.toFixed(1)} h` : `${(hours * 60).toFixed(0)} min`}`;
}

function live(state) {
  const { rates, delays, free_bytes, ring_percent, flow, recorded_bytes } = state;
  const short = rates.recorded.value > 0 && free_bytes !== null && free_bytes / rates.recorded.value < 3600;
  const [events, incomplete] = [rates.events.value, rates.incomplete.value];
  return [
    ["packets in", si(rates.packets.value, "/s")],
    ["data in", si(rates.bits.value, "bit/s")],
    ["events", si(events, "/s")],
    ["incomplete", si(incomplete, "/s"), incomplete > 0, incomplete > 0 && events > 0 ? `${percent(Math.min(incomplete, events), events)} of events` : ""],
    lost(flow),
    ["recorded", si(recorded_bytes, "B"), false, si(rates.recorded.value, "B/s")],
    ["disk left", free_bytes === null ? "–" : si(free_bytes, "B"), short, diskLasts(state)],
    ["fullest ring", `${ring_percent} %`, ring_percent > 80],
    ["median delay", delays.events ? time(delays.p50_ns) : "–", false,
      delays.events ? `99 %: ${time(delays.p99_ns)}, most ${time(delays.max_ns)}` : ""],
  ];
}

function lost(flow) {
  return ["lost", countWithin(flow.lost, LETTERS), flow.lost > 0, flow.expected ? `${percent(flow.lost, flow.expected)} of sent` : ""];
}

function recorded({ reading, events, flow, faults }) {
  return [
    ["events", countWithin(events.built, LETTERS), false, reading.complete ? "" : "still reading"],
    ["incomplete events", countWithin(events.incomplete, LETTERS), events.incomplete > 0, events.incomplete > 0 ? `${percent(events.incomplete, events.built)} of events` : ""],
    ["packets", countWithin(reading.packets, LETTERS)],
    ["data", si(reading.bytes, "B"), false, `${count(reading.batches)} batches`],
    ...(flow ? [lost(flow)] : []),
    ["faults of the files", reading.complete ? count(faults.length) : "–", faults.length > 0],
  ];
}

export function drawTiles() {
  const tiles = store.mode === "run" ? recorded(store.state) : live(store.state);
  const place = at("tiles");
  while (place.children.length > tiles.length) place.lastChild.remove();
  while (place.children.length < tiles.length) {
    const tile = make("div", { class: "tile" });
    tile.append(make("span", { class: "quiet" }), make("b"), make("span", { class: "quiet" }));
    place.append(tile);
  }
  tiles.forEach(([name, value, bad, more], index) => {
    const tile = place.children[index];
    tile.classList.toggle("bad", Boolean(bad));
    put(tile.children[0], name);
    put(tile.children[1], value);
    put(tile.children[2], more ?? "");
  });
}
