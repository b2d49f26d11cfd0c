// The banner: one sentence that says whether the run is healthy, in the title and the icon as well.
import { alarmControls, drawAlarms } from "./alarms.js";
import { connection, ringing, verdict, verdictOfRun } from "./condition.js";
import { at, put } from "./dom.js";
import { beep, ringFor } from "./sound.js";
import { store } from "./store.js";
import { drawSymbol, icon } from "./symbol.js";

let shown = "";     // the condition that is shown
let drawnIcon = "";

function drawIcon(level) {
  if (level === drawnIcon) return;
  drawnIcon = level;
  document.querySelector("link[rel=icon]").href = icon(level);
}

function drawBanner({ level, word, sentence, since, advice }) {
  const banner = at("health");
  if (banner.dataset.level !== level) banner.dataset.level = level;
  drawSymbol(at("health-symbol"), level);
  put(at("health-word"), word);
  put(at("health-sentence"), sentence);
  put(at("health-since"), since);
  put(at("health-advice"), advice);
  drawIcon(level);
}

function drawTitle(words, run) {
  const title = run ? `${words}: ${run} – Fluxline` : `${words} – Fluxline`;
  if (document.title !== title) document.title = title;
}

/** Turns the buttons that need an answer on or off. */
function drawControls(live) {
  const off = !live;
  for (const control of document.querySelectorAll("[data-command], #remark input, #remark button")) {
    if (control.disabled !== off) control.disabled = off;
  }
  alarmControls(live && store.operator);
}

/** Draws the condition of a live run; `silentMs` and `closed` as in `connection`. */
export function drawHealth({ silentMs, closed }) {
  const known = { state: store.state, silentMs, closed };
  const how = connection(known);
  const now = verdict(known);
  const alarms = store.state?.health?.alarms ?? [];
  document.body.dataset.connection = how;
  drawBanner(now);
  drawTitle(now.title, store.state?.run);
  drawAlarms(alarms);
  drawControls(how === "live");
  if (how === "stale") { put(at("state"), closed ? "no connection" : "no answer"); at("state").className = "state gone"; }
  if (how === "ended") { put(at("state"), "stopped"); at("state").className = "state stopped"; }
  if (how === "live") ringFor(ringing(alarms));
  if (how === "stale" && shown === "live") beep();
  shown = how;
}

/** Draws how the run of a folder ended, and the alarms that it had. */
export function drawHealthOfRun() {
  const now = verdictOfRun(store.state);
  delete document.body.dataset.connection;
  drawBanner(now);
  drawTitle(now.title, store.state.run);
  drawAlarms(store.state.health?.alarms ?? []);
}

/** Forgets the run that was shown, for the list of runs. */
export function clearHealth() {
  document.title = "Fluxline";
  drawIcon("ended");
  drawAlarms([]);
}
