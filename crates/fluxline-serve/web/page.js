// The page: which parts it has, and when each is drawn.
import { command, complain, listenControl, logIn } from "./control.js";
import { drawDelays } from "./delays.js";
import { at, put, seldom } from "./dom.js";
import { drawEvents, listenEvents } from "./events.js";
import { drawFlow } from "./flow.js";
import { drawHistory } from "./history.js";
import { drawNetwork } from "./network.js";
import { drawNotes } from "./notes.js";
import { clock } from "./numbers.js";
import { drawPacket, drawPackets } from "./packet.js";
import { drawRuns } from "./runs.js";
import { drawSignal, listenSignal } from "./signal.js";
import { drawSources, listenSources } from "./sources.js";
import { ask, store } from "./store.js";
import { drawTiles } from "./tiles.js";
import { drawTrace, listenTrace, zoomBy } from "./trace.js";

// Drawings that change shapes are rarer than those that change digits.
const flow = seldom(250, drawFlow);
const network = seldom(500, drawNetwork);
const delays = seldom(500, drawDelays);

function drawHead() {
  const { state, run, folder, commands, page } = store.state;
  put(at("state"), state);
  at("state").className = `state ${state.replace(" ", "-")}`;
  put(at("run"), run);
  const title = `${state}: ${run} – Fluxline`;
  if (document.title !== title) document.title = title;
  put(at("folder"), folder ?? "not recorded");
  const shot = store.state.shot === null || store.state.shot === undefined ? "" : `shot ${store.state.shot}, `;
  put(at("elapsed"), `${shot}${clock(store.state.seconds)}`);
  for (const button of document.querySelectorAll("[data-command]")) {
    button.hidden = !store.operator || !commands.includes(button.dataset.command);
  }
  at("login").hidden = store.operator || commands.length === 0;
  at("live-page").hidden = !page;
  if (page) at("live-page").href = page;
}

function draw() {
  if (!store.state) return;
  drawHead();
  drawTiles();
  drawSources();
  drawNotes();
  flow();
  network();
  delays();
}

let drawn = 0;  // time of the last drawing, so that a fast stream does not draw twice a frame

function follow() {
  const stream = new EventSource("/api/events");
  stream.onmessage = (message) => {
    store.state = JSON.parse(message.data);
    if (Date.now() - drawn > 90) { drawn = Date.now(); requestAnimationFrame(draw); }
    if (at("problem").dataset.gone) { delete at("problem").dataset.gone; complain(""); logIn().then(draw); }
  };
  // The browser connects again by itself, also after a restart of the program.
  stream.onerror = () => {
    at("problem").dataset.gone = "yes";
    if (store.state?.state === "stopping" || store.state?.state === "stopped") {
      Object.assign(store.state, { state: "stopped", commands: [] });
      draw();
      complain("the run has ended; this is its last state.");
    } else {
      put(at("state"), "no connection");
      at("state").className = "state gone";
      complain("no connection to the program; trying again.");
    }
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 1000);
  };
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
  if (grown) drawEvents();
  if (store.packet === null && store.state.events.built) chooseEvent(0);
  if (!store.state.reading.complete) setTimeout(drawRun, 200);
}

/** Shows the list of runs, or the run behind `#/`. */
function route() {
  const id = decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  Object.assign(store, { state: null, chosen: null, event: 0, packet: null, decoded: null });
  document.title = "Fluxline";
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
  at("span").addEventListener("change", drawHistory);
  at("runs-filter").addEventListener("input", drawRuns);
  const session = await fetch("/api/session").then((answer) => answer.json(), () => ({}));
  if (session.runs) {
    addEventListener("hashchange", route);
    route();
    setInterval(() => (store.mode === "list" ? drawRuns() : drawRun()), 2000);
    return;
  }
  show("live");
  await logIn();
  draw();
  follow();
  setInterval(drawHistory, 1000);
  setInterval(drawPacket, 500);
  setInterval(drawSignal, 500);
  setInterval(drawTrace, 2000);
}

begin();
