// The condition of the page, in a word and a sentence: does the program answer, has the run ended,
// is it healthy?
//
// Everything here follows from what is given, so that tests can ask it without a page.
import { age, count, date, moment } from "./numbers.js";

/** Time without a snapshot after which the page is stale [ms]. */
export const STALE_MS = 2000;

/**
 * Returns how the page stands to the program: "waiting" for the first snapshot, "live", "stale" or
 * "ended". `silentMs` is the age of the newest snapshot; `closed`: the connection broke.
 */
export function connection({ state, silentMs, closed }) {
  const late = closed || silentMs >= STALE_MS;
  if (!state) return late ? "stale" : "waiting";
  // The program closes the connection when it has drained, often before it says "stopped".
  if (state.state === "stopped" || (closed && state.state === "stopping")) return "ended";
  return late ? "stale" : "live";
}

const ofHealth = { ok: "ok", warning: "warning", alarm: "ALARM" };

/** Returns the sentence about the health that was known last, where it was not well. */
function before({ health }, words) {
  return health && health.state !== "ok" ? `${words} ${health.state}: ${health.sentence}` : "";
}

function lasting(since_ns, now) {
  return since_ns ? `since ${moment(since_ns, now)}, for ${age((now - since_ns) / 1e9)}` : "";
}

function stale({ state, silentMs }) {
  const seen = state ? `last answer ${moment(state.at_ns, state.at_ns)}, ${age(silentMs / 1000)} ago` : `for ${age(silentMs / 1000)}`;
  return {
    level: "stale", word: "no answer", title: `no answer for ${age(silentMs / 1000)}`,
    sentence: state ? "the program does not answer: this is an old state." : "the program does not answer.",
    since: seen, advice: [state ? before(state, "Last known:") : "", "This page connects again by itself."].filter(Boolean).join(" "),
  };
}

function ended({ state }) {
  const sentence = state.state === "stopped" ? "the run has ended; this is its last state."
    : "the run has ended; this is its last state before it closed. Its folder says how it ended.";
  return { level: "ended", word: "ended", title: "ended", sentence, since: `at ${date(state.at_ns)}`, advice: before(state, "At its end:") };
}

/** Returns {level, word, title, sentence, since, advice} of a live run. */
export function verdict(known) {
  const { state } = known;
  const how = connection(known);
  if (how === "waiting") return { level: "waiting", word: "connecting", title: "connecting", sentence: "waiting for the first answer of the program.", since: "", advice: "" };
  if (how === "stale") return stale(known);
  if (how === "ended") return ended(known);
  const { health } = state;
  if (!health) return { level: "unknown", word: state.state, title: state.state, sentence: "this program does not judge the health of its run.", since: "", advice: "" };
  // Before the first look at the run, and when nobody looks any more.
  if (health.state === "unknown") return { level: "unknown", word: "unknown", title: state.state, sentence: String(health.sentence ?? ""), since: "", advice: "" };
  const level = health.state in ofHealth ? health.state : "warning";
  return {
    level, word: ofHealth[health.state] ?? String(health.state), title: level === "ok" ? state.state : ofHealth[level],
    sentence: String(health.sentence ?? ""), since: lasting(health.since_ns, state.at_ns), advice: String(health.advice ?? ""),
  };
}

/** Returns what a run folder holds, for a run that says nothing itself. */
function heldBy({ events, flow }) {
  const incomplete = events.incomplete ? `, ${count(events.incomplete)} of them incomplete` : "";
  const lost = flow ? `; ${flow.lost ? count(flow.lost) : "no"} packets lost` : "";
  return `${count(events.built)} events${incomplete}${lost}`;
}

const ofEnd = { finished: "ended", running: "ok", recovered: "warning", unknown: "warning" };

/** Returns the same of a run folder: how it ended, and whether it had alarms. */
export function verdictOfRun(state) {
  const { alarms = [] } = state.health ?? {};
  const level = ofEnd[state.state] ?? "alarm";
  const began = state.began_ns ? `from ${date(state.began_ns)}` : "";
  const lasted = began && Number.isFinite(state.seconds) ? ` to ${date(state.began_ns + state.seconds * 1e9)}` : "";
  const had = alarms.length ? `It had ${alarms.length === 1 ? "an alarm" : `${alarms.length} alarms`}; they are listed below.` : "";
  return { level, word: state.state, title: state.state, sentence: state.sentence || heldBy(state), since: began + lasted, advice: had };
}

const rank = ({ state, acknowledged, severity, shelved_until_ns }) => (shelved_until_ns ? 8 : 0)
  + (state === "cleared" ? 4 : 0) + (acknowledged ? 2 : 0) + (severity === "alarm" ? 0 : 1);

/** Returns alarms in the order in which somebody should read them: the newest of each kind first. */
export function inOrder(alarms) {
  return [...alarms].sort((a, b) => rank(a) - rank(b) || b.since_ns - a.since_ns || (a.name < b.name ? -1 : 1));
}

/** Returns how many alarms of each kind there are, in words. */
export function tally(alarms) {
  const heard = alarms.filter((one) => !one.shelved_until_ns);
  const counts = [
    [heard.filter((one) => one.state !== "cleared").length, "active"],
    [heard.filter((one) => one.state === "cleared").length, "cleared, not acknowledged"],
    [alarms.length - heard.length, "shelved"],
  ];
  return counts.filter(([number]) => number).map(([number, words]) => `${number} ${words}`).join(", ");
}

/** Returns when an alarm was, and what was done about it; `now` is the program's time. */
export function timesOf(alarm, now) {
  const { since_ns, cleared_ns, ended, acknowledged, shelved_until_ns } = alarm;
  const when = cleared_ns
    ? `${moment(since_ns, now)} to ${moment(cleared_ns, now)}, for ${age((cleared_ns - since_ns) / 1e9)}`
    : ended ? `since ${moment(since_ns, now)}, to the end of the run` : lasting(since_ns, now);
  return [when, cleared_ns && !ended ? "cleared" : "", acknowledged ? "acknowledged" : "",
    shelved_until_ns ? `shelved until ${moment(shelved_until_ns, now)}` : ""].filter(Boolean).join("; ");
}

/**
 * Returns the active alarms of severity alarm that nobody acknowledged or shelved, as keys: one that
 * comes again is another key.
 */
export function ringing(alarms) {
  const rings = alarms.filter((one) => one.severity === "alarm" && one.state === "active" && !one.acknowledged && !one.shelved_until_ns);
  return new Set(rings.map((one) => JSON.stringify([one.name, one.since_ns])));
}
