// Counts since a moment that the viewer chose: on this page alone, nothing changes in the run.
import { at, put } from "./dom.js";
import { moment } from "./numbers.js";
import { store } from "./store.js";

const ofSource = ["packets", "bytes", "lost", "restarts", "reordered", "duplicate", "recorded", "fragments", "missing"];
const ofInput = ["datagrams", "bytes", "ring_full", "socket_dropped", "rejected", "frames", "frames_lost"];
const ofFlow = ["expected", "lost", "received", "to_builder"];
const ofEvents = ["built", "incomplete", "paused"];

let zero = null;  // the snapshot whose counts are zero

/** Returns `now` with its `names` less those of `then`; counts that fell are 0. */
function less(now, then, names) {
  const changed = names.filter((name) => now[name] !== undefined && then?.[name] !== undefined);
  return { ...now, ...Object.fromEntries(changed.map((name) => [name, Math.max(0, now[name] - then[name])])) };
}

function flowLess(now, then) {
  const before = new Map(then.ends.map((end) => [end.name, end]));
  return {
    ...less(now, then, ofFlow),
    ends: now.ends.map((end) => less(end, before.get(end.name), ["count"])),
    host: less(now.host, then.host, Object.keys(now.host)),
  };
}

function eventsLess(now, then) {
  const before = new Map((then.delay_counts ?? []).map((one) => [one.up_to_ns, one]));
  return {
    ...less(now, then, ofEvents),
    delay_counts: (now.delay_counts ?? []).map((one) => less(one, before.get(one.up_to_ns), ["events"])),
  };
}

/** Returns a snapshot with the counts since an older one of the same run. */
export function countsSince(state, then) {
  const sources = new Map(then.sources.map((source) => [source.number, source]));
  return {
    ...less(state, then, ["recorded_bytes"]),
    flow: flowLess(state.flow, then.flow),
    events: eventsLess(state.events, then.events),
    sources: state.sources.map((source) => less(source, sources.get(source.number), ofSource)),
    inputs: state.inputs.map((input, number) => less(input, then.inputs[number], ofInput)),
  };
}

/** Returns true when a snapshot follows another one in the same run of the program. */
const follows = (state, then) => state.run === then.run && state.folder === then.folder && state.tick >= then.tick;

/** Returns the state to show for a snapshot that arrived. */
export function shownOf(received) {
  if (zero && !follows(received, zero)) zero = null;
  return zero ? countsSince(received, zero) : received;
}

/** Draws the time from which counts are shown, where it is not the beginning. */
export function drawZero() {
  const shown = zero !== null && store.mode === "live";
  at("zero-shown").hidden = !shown;
  at("zero").hidden = store.mode !== "live";
  if (shown) put(at("zero-since"), `counts since ${moment(zero.at_ns, store.state.at_ns)}`);
}

/** Calls `changed` when another moment is chosen. */
export function listenZero(changed) {
  const choose = (moment) => () => { if (store.received) { zero = moment(); changed(); } };
  at("zero").addEventListener("click", choose(() => store.received));
  at("zero-reset").addEventListener("click", choose(() => null));
}
