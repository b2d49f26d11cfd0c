// The page: which parts it has, and when each is drawn.
import { connection } from "./condition.js";
import { command, complain, listenControl, logIn } from "./control.js";
import { drawDelays } from "./delays.js";
import { at, put, seldom } from "./dom.js";
import { drawEvents, listenEvents } from "./events.js";
import { drawFlow } from "./flow.js";
import { follow, heardOf, renew } from "./follow.js";
import { clearHealth, drawHealth, drawHealthOfRun } from "./health.js";
import { clearHistory, drawHistory, listenHistory } from "./history.js";
import { drawNetwork } from "./network.js";
import { drawNotes } from "./notes.js";
import { clock, date, moment } from "./numbers.js";
import { drawPacket, drawPackets } from "./packet.js";
import { clearPlots, drawPlots, listenPlots } from "./plots.js";
import { drawRuns, listenMarks } from "./runs.js";
import { drawSignal, listenSignal } from "./signal.js";
import { listenSound } from "./sound.js";
import { drawSlow } from "./slow.js";
import { drawSources, listenSources } from "./sources.js";
import { ask, store } from "./store.js";
import { drawTiles } from "./tiles.js";
import { drawTrace, listenTrace, zoomBy } from "./trace.js";
import { drawZero, listenZero, shownOf } from "./zero.js";

// Drawings that change shapes are rarer than those that change digits.
const flow = seldom(250, drawFlow);
const network = seldom(500, drawNetwork);
const delays = seldom(500, drawDelays);

const ofTheEnd = { live: "now", stale: "last seen", ended: "ended" };

/** Returns when a run began, what time it is there, and how long it has lasted. */
function timesOf({ began_ns, at_ns, seconds }, how) {
  if (!Number.isFinite(seconds)) return began_ns ? `began ${date(began_ns)}` : "";
  const began = began_ns ?? at_ns - seconds * 1e9;
  const end = moment(at_ns ?? began + seconds * 1e9, began);
  return `began ${date(began)}, ${ofTheEnd[how]} ${end}, ${how === "ended" ? "lasted" : "elapsed"} ${clock(seconds)}`;
}

function drawHead() {
  const { state, run, folder, commands, page } = store.state;
  put(at("state"), state);
  at("state").className = `state ${state.replace(" ", "-")}`;
  put(at("run"), run);
  put(at("folder"), folder ?? "not recorded");
  const shot = store.state.shot === null || store.state.shot === undefined ? "" : `shot ${store.state.shot}, `;
  const how = store.mode === "run" ? "ended" : connection({ state: store.state, ...heardOf() });
  put(at("elapsed"), shot + timesOf(store.state, how));
  for (const button of document.querySelectorAll("[data-command]")) {
    button.hidden = !store.operator || !commands.includes(button.dataset.command);
  }
  at("login").hidden = store.operator || commands.length === 0;
  at("live-page").hidden = !page;
  if (page) at("live-page").href = page;
}

function draw() {
  if (!store.state) return;
  if (store.mode === "run") { drawHead(); drawHealthOfRun(); }
  drawZero();
  drawTiles();
  drawSources();
  drawSlow();
  drawNotes();
  flow();
  network();
  delays();
}

let drawn = 0;  // time of the last drawing, so that a fast stream does not draw twice a frame

/** Takes the newest snapshot. The head is drawn in a hidden tab, too, where frames stand still. */
function received() {
  if (store.received) {
    store.state = shownOf(store.received);
    drawHead();
  }
  drawHealth(heardOf());
  if (Date.now() - drawn > 90) { drawn = Date.now(); requestAnimationFrame(draw); }
}

/** The program answers again, perhaps another one that does not know this browser. */
async function cameBack() {
  complain("");
  await logIn();
  received();
}

/** Follows a live run; four times a second, looks whether it still answers. */
function watch() {
  follow(received, cameBack);
  setInterval(() => {
    if (store.state) drawHead();
    drawHealth(heardOf());
    renew(received, cameBack);
  }, 250);
}

/** Shows the parts of a mode. */
function show(mode) {
  store.mode = mode;
  for (const part of document.querySelectorAll("[data-for]")) {
    part.hidden = !part.dataset.for.split(" ").includes(mode);
  }
}

function chooseSource(number) {
  store.chosen = number;
  drawSources();
  drawPacket();
  drawSignal();
  drawTrace();
}

function chooseEvent(number) {
  store.event = number;
  store.packet = 0;
  drawEvents();
  drawPackets(choosePacket);
  choosePacket(0);
}

async function choosePacket(number) {
  store.packet = number;
  await drawPacket();
  const label = store.decoded?.source;
  const source = store.state?.sources.find((one) => one.label === label);
  if (source) { store.chosen = source.number; drawSources(); drawSignal(); }
}

async function drawRun() {
  const base = store.base;
  const answer = await ask("/state");
  if (store.base !== base || store.mode !== "run") return;
  if (!answer) return complain("no connection to the program; trying again.");
  if (!answer.ok) return complain(answer.body.error);
  complain("");
  const grown = store.state?.events.built !== answer.body.events.built;
  store.state = answer.body;
  draw();
  if (grown) { drawEvents(); drawHistory(); }
  drawPlots();
  if (store.packet === null && store.state.events.built) chooseEvent(0);
  if (!store.state.reading.complete) setTimeout(drawRun, 200);
}

/** Shows the list of runs, or the run behind `#/`. */
function route() {
  const id = decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  Object.assign(store, { state: null, chosen: null, event: 0, packet: null, decoded: null });
  clearHealth();
  clearHistory();
  clearPlots();
  complain("");
  if (!id) {
    show("list");
    put(at("run"), "Runs");
    put(at("elapsed"), "");
    at("state").className = "state";
    at("live-page").hidden = true;
    at("login").hidden = true;
    drawRuns();
    return;
  }
  store.base = `/api/runs/${encodeURIComponent(id)}`;
  show("run");
  drawRun();
}

const keys = { s: "start", p: "pause", r: "resume", x: "stop" };

function listenKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) { if (event.key === "Escape") event.target.blur(); return; }
    if (event.key === "/") { event.preventDefault(); at(store.mode === "list" ? "runs-filter" : "filter").focus(); }
    if (event.key === "+" || event.key === "-") zoomBy(event.key === "+" ? 0.5 : 2);
    if (keys[event.key] && store.mode === "live") command(keys[event.key]);
  });
}

async function begin() {
  listenControl();
  listenSources(chooseSource);
  listenSignal();
  listenTrace();
  listenEvents(chooseEvent);
  listenKeys();
  listenHistory();
  listenPlots();
  listenSound();
  listenZero(received);
  at("runs-filter").addEventListener("input", drawRuns);
  const session = await fetch("/api/session").then((answer) => answer.json(), () => ({}));
  if (session.runs) {
    if (location.hash.startsWith("#/")) store.operator = session.operator;
    else await logIn();
    listenMarks();
    addEventListener("hashchange", route);
    route();
    setInterval(() => (store.mode === "list" ? drawRuns() : drawRun()), 2000);
    return;
  }
  show("live");
  await logIn();
  drawPacket();
  watch();
  setInterval(drawHistory, 1000);
  setInterval(drawPacket, 500);
  setInterval(drawSignal, 500);
  setInterval(drawTrace, 2000);
  drawPlots();
  setInterval(drawPlots, 2000);
}

begin();
