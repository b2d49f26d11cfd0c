// The live page: one stream of snapshots in, the document out. No library but uPlot.
"use strict";

const at = (id) => document.getElementById(id);
const ticksPerSecond = 10;
let newest = null;      // the newest snapshot
let chosen = null;      // number of the chosen source
let operator = false;   // this browser may control the run
let drawn = 0;          // time of the last drawing, so that a fast stream does not draw twice a frame
let sure = 0;           // time until which a second press of `stop` is meant

// --- numbers -----------------------------------------------------------------------------------

function si(value, unit) {
  if (!Number.isFinite(value)) return "–";
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [by, letter] = steps.find(([by]) => Math.abs(value) >= by) ?? [1, ""];
  const scaled = value / by;
  const digits = by === 1 ? (Number.isInteger(scaled) ? 0 : 1) : scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return `${scaled.toFixed(digits)} ${letter}${unit}`.trim();
}

const count = (value) => value.toLocaleString("en");

function time(ns) {
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(2)} s`;
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${(ns / 1e3).toFixed(1)} µs`;
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  const two = (value) => String(value).padStart(2, "0");
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

// --- drawing -----------------------------------------------------------------------------------

function make(tag, attributes = {}, text = "") {
  const of = tag === "rect" || tag === "text" || tag === "path" || tag === "title"
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) of.setAttribute(name, value);
  if (text) of.textContent = text;
  return of;
}

function draw() {
  if (!newest) return;
  const { state, run } = newest;
  at("state").textContent = state;
  at("state").className = `state ${state}`;
  at("run").textContent = run;
  document.title = `${state}: ${run} – Fluxline`;
  at("folder").textContent = newest.folder ?? "not recorded";
  const shot = newest.shot === null ? "" : `shot ${newest.shot}, `;
  at("elapsed").textContent = `${shot}${clock(newest.seconds)}`;
  for (const button of document.querySelectorAll("[data-command]")) {
    button.hidden = !operator || !newest.commands.includes(button.dataset.command);
  }
  at("login").hidden = operator || newest.commands.length === 0;
  drawTiles();
  drawFlow();
  drawSources();
  drawNotes();
}

function drawTiles() {
  const { rates, delays, free_bytes, ring_percent, flow, recorded_bytes } = newest;
  const lost = flow.expected ? flow.lost / flow.expected : 0;
  const tiles = [
    ["packets in", si(rates.packets.value, "/s")],
    ["data in", si(rates.bits.value, "bit/s")],
    ["events", si(rates.events.value, "/s")],
    ["incomplete events", si(rates.incomplete.value, "/s"), rates.incomplete.value > 0],
    ["lost so far", `${count(flow.lost)}`, flow.lost > 0, flow.expected ? `${(lost * 100).toPrecision(2)} % of sent` : ""],
    ["recorded", `${si(recorded_bytes, "B")}`, false, `${si(rates.recorded.value, "B/s")}`],
    ["disk left", free_bytes === null ? "–" : si(free_bytes, "B"), diskIsShort(), diskLasts()],
    ["fullest ring", `${ring_percent} %`, ring_percent > 80],
    ["event delay, median", delays.events ? time(delays.p50_ns) : "–", false,
      delays.events ? `99 %: ${time(delays.p99_ns)}, most ${time(delays.max_ns)}` : ""],
  ];
  at("tiles").replaceChildren(...tiles.map(([name, value, bad, more]) => {
    const tile = make("div", { class: bad ? "tile bad" : "tile" });
    tile.append(make("span", { class: "quiet" }, name), make("b", {}, value));
    tile.append(make("span", { class: "quiet" }, more ?? ""));
    return tile;
  }));
}

const diskSeconds = () => newest.free_bytes / newest.rates.recorded.value;
const diskIsShort = () => newest.rates.recorded.value > 0 && diskSeconds() < 3600;
function diskLasts() {
  if (newest.free_bytes === null || !(newest.rates.recorded.value > 0)) return "";
  const hours = diskSeconds() / 3600;
  return hours > 1000 ? "" : `lasts ${hours >= 1 ? `${hours.toFixed(1)} h` : `${(hours * 60).toFixed(0)} min`}`;
}

// The stage at which data ended; what is not named here ended on the way to the builder.
const building = ["builder full", "late dropped", "inconsistent", "duplicate in its event"];
const recording = ["write failed", "counted only"];

function drawFlow() {
  const { flow } = newest;
  const svg = at("flow");
  const width = svg.clientWidth || 900;
  const x = [0, 0.3, 0.6, 0.9].map((share) => 8 + share * (width - 16));
  const recorded = flow.ends.filter((end) => end.fate === "recorded").reduce((sum, end) => sum + end.count, 0);
  const numbered = flow.expected > 0;
  const values = [numbered ? flow.expected : null, flow.received, flow.to_builder, recorded];
  const narrow = width < 700;
  const names = narrow ? ["sent", "received", "events", "recorded"] : ["sent, by packet counters", "received", "in events", "recorded"];
  const most = Math.max(...values.map((value) => value ?? 0), 1);
  const height = (value) => Math.max(2, 60 * value / most);
  const middle = 62;
  const parts = [];
  for (let stage = 0; stage < 4; stage++) {
    const value = values[stage];
    if (value === null) continue;
    const tall = height(value);
    parts.push(make("rect", { x: x[stage], y: middle - tall / 2, width: 10, height: tall, class: stage === 3 ? "kept" : "band" }));
    if (stage < 3) {
      const next = height(values[stage + 1]);
      const [from, to] = [x[stage] + 10, x[stage + 1]];
      const path = `M${from} ${middle - tall / 2} L${to} ${middle - next / 2} V${middle + next / 2} L${from} ${middle + tall / 2} Z`;
      parts.push(make("path", { d: path, class: "band" }));
    }
    const anchor = stage === 3 ? "end" : "start";
    const left = stage === 3 ? x[3] + 10 : x[stage];
    parts.push(make("text", { x: left, y: 14, "text-anchor": anchor }, count(value)));
    parts.push(make("text", { x: left, y: 28, "text-anchor": anchor, class: "quiet" }, names[stage]));
  }
  const branches = [[], [], []];
  if (flow.lost > 0) branches[0].push({ name: "missing, by packet counters", count: flow.lost, fate: "dropped", advice: "" });
  for (const end of flow.ends) {
    if (end.fate === "recorded" || end.count === 0) continue;
    const stage = building.includes(end.name) || recording.includes(end.name) ? 2 : end.name === "socket dropped" ? 0 : 1;
    branches[stage].push(end);
  }
  if (flow.in_flight > 0) branches[2].push({ name: "in flight: in rings, open events, batches", count: flow.in_flight, fate: "aside", advice: "" });
  // On a phone, branches stand below each other.
  const columns = narrow ? [branches.flat().map((branch) => [branch, 0])] : branches.map((list, stage) => list.map((branch) => [branch, stage]));
  const rows = Math.max(0, ...columns.map((list) => list.length));
  const tall = 104 + rows * 19;
  svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
  svg.style.height = `${tall}px`;
  columns.forEach((list) => list.forEach(([branch, stage], row) => {
    const y = 112 + row * 19;
    const style = branch.fate === "dropped" ? "loss" : "aside";
    parts.push(make("rect", { x: x[stage] + 24, y: y - 9, width: 9, height: 9, class: style }));
    const text = make("text", { x: x[stage] + 38, y }, `${count(branch.count)} ${branch.name}`);
    if (branch.advice) text.append(make("title", {}, branch.advice));
    parts.push(text);
  }));
  svg.replaceChildren(...parts);
  const advice = flow.ends.filter((end) => end.fate === "dropped" && end.count > 0 && end.advice);
  const lines = advice.sort((a, b) => b.count - a.count).slice(0, 3).map((end) => `${end.name}: ${end.advice}`);
  if (flow.lost > 0 && flow.host.nic_dropped + flow.host.softnet_dropped === 0) {
    lines.push("missing, by packet counters: this host counted no drop, so look at the sender and the network.");
  }
  at("advice").replaceChildren(...lines.map((line) => make("li", {}, line)));
}

function drawSources() {
  const body = at("sources").tBodies[0];
  const wanted = at("filter").value.toLowerCase();
  const shown = newest.sources.filter((source) => source.label.toLowerCase().includes(wanted));
  while (body.rows.length > shown.length) body.deleteRow(-1);
  while (body.rows.length < shown.length) {
    const row = body.insertRow();
    row.tabIndex = 0;
    for (let cell = 0; cell < 6; cell++) row.insertCell().className = cell > 0 && cell < 5 ? "n" : "";
  }
  shown.forEach((source, index) => {
    const row = body.rows[index];
    const { cells } = row;
    row.dataset.source = source.number;
    row.classList.toggle("chosen", source.number === chosen);
    const silent = source.silent_ms > 2000 && newest.state !== "stopped";
    const texts = [source.label, si(source.rate, ""), count(source.packets), count(source.lost), count(source.restarts),
      silent ? `silent for ${(source.silent_ms / 1000).toFixed(0)} s` : source.state];
    texts.forEach((text, cell) => { if (cells[cell].textContent !== text) cells[cell].textContent = text; });
    cells[3].classList.toggle("bad", source.lost > 0);
    cells[4].classList.toggle("warn", source.restarts > 0);
    cells[5].className = silent || source.state === "dead" ? "bad" : "";
  });
}

function drawNotes() {
  const said = newest.remarks.map((one) => [one.at_ns, one.text]);
  const list = at("notes");
  const texts = [...newest.notes, ...said.map(([ns, text]) => `${new Date(ns / 1e6).toLocaleTimeString()} ${text}`)];
  if (list.children.length === texts.length) return;
  list.replaceChildren(...texts.map((text, index) => make("li", index >= newest.notes.length ? { class: "said" } : {}, text)));
}

// --- curves ------------------------------------------------------------------------------------

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function chart(place, series, axis) {
  const ink = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  return new uPlot({
    width: place.clientWidth || 400, height: 170, cursor: { drag: { x: true, y: false } },
    scales: { x: { time: axis === "time" } },
    axes: [{ ...ink }, { ...ink, size: 60, values: (_, values) => values.map((value) => si(value, "")) }],
    series: [{}, ...series.map(({ label, stroke, fill }) => ({ label, stroke, fill, width: 1.5, points: { show: false }, value: (_, value) => value === null ? "–" : si(value, "") }))],
  }, [[], ...series.map(() => [])], place);
}

let packetsChart, eventsChart, curveChart = null;

async function drawHistory() {
  if (!newest) return;
  const seconds = Number(at("span").value);
  const to = newest.tick;
  const from = seconds ? Math.max(0, to - seconds * ticksPerSecond) : 0;
  const answer = await fetch(`/api/history?from=${from}&to=${to}&points=${Math.round(innerWidth / 2)}`);
  if (!answer.ok) return;
  const { series } = await answer.json();
  const begun = newest.at_ns / 1e9 - to / ticksPerSecond;
  const times = (part) => part.greatest.map((_, index) => begun + (part.first + index * part.step) / ticksPerSecond);
  packetsChart.setData([times(series.packets), series.packets.least, series.packets.greatest, series.lost.greatest]);
  eventsChart.setData([times(series.events), series.events.greatest, series.incomplete.greatest]);
}

async function drawPacket() {
  if (chosen === null || !newest) return;
  const answer = await fetch(`/api/packet?source=${chosen}`);
  const packet = await answer.json();
  if (!answer.ok) { at("packet-of").textContent = packet.error; return; }
  const sequence = packet.sequence === null ? "" : `, number ${packet.sequence}`;
  at("packet-of").textContent = `${packet.source}: ${packet.type}${sequence}, ${packet.length} bytes`;
  at("fields").tBodies[0].replaceChildren(...packet.fields.map((field) => {
    const row = make("tr", { title: field.help });
    row.append(make("td", {}, field.name), make("td", { class: "n" }, `${field.value ?? "absent"}`), make("td", { class: "quiet" }, field.unit ?? ""));
    return row;
  }));
  drawBytes(packet);
  drawCurve(packet);
}

function drawBytes(packet) {
  const pairs = packet.hex.match(/../g) ?? [];
  const [start, end] = packet.payload;
  const span = (from, to, style) => make("span", { class: style }, pairs.slice(from, to).join(" ") + " ");
  at("bytes").replaceChildren(span(0, start, ""), span(start, end, "payload"), span(end, pairs.length, ""));
}

const palette = ["--blue", "--loss", "--good", "--warn"];

function drawCurve(packet) {
  const curves = packet.curves.slice(0, 4);
  const names = curves.map((curve) => curve.name).join();
  if (!curveChart || curveChart.names !== names) {
    curveChart?.plot.destroy();
    curveChart = null;
    if (!curves.length) return;
    const series = curves.map(({ name, unit }, index) => ({ label: unit ? `${name} [${unit}]` : name, stroke: colour(palette[index]) }));
    curveChart = { names, plot: chart(at("curve"), series, "number") };
  }
  if (curves.length) curveChart.plot.setData([curves[0].values.map((_, index) => index), ...curves.map((curve) => curve.values)]);
}

// --- control -----------------------------------------------------------------------------------

function complain(text) {
  at("problem").textContent = text;
  at("problem").hidden = !text;
}

async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const said = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  if (answer.status === 401) operator = false;
  complain(answer.ok ? "" : said.error);
  return answer.ok;
}

async function command(name) {
  const button = document.querySelector(`[data-command=${name}]`);
  if (!button || button.hidden) return;
  if (name === "stop" && Date.now() > sure) {
    sure = Date.now() + 4000;
    button.classList.add("sure");
    button.textContent = "Stop: sure?";
    setTimeout(() => { button.classList.remove("sure"); button.textContent = "Stop"; }, 4000);
    return;
  }
  sure = 0;
  await post("/api/command", { command: name });
}

// The token comes behind `#`; it is exchanged for a cookie and removed from the address.
async function logIn() {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, "", location.pathname);
    operator = await post("/api/session", { token });
  } else {
    const answer = await fetch("/api/session");
    operator = answer.ok && (await answer.json()).operator;
  }
  draw();
}

function follow() {
  const stream = new EventSource("/api/events");
  stream.onmessage = (message) => {
    newest = JSON.parse(message.data);
    if (Date.now() - drawn > 90) { drawn = Date.now(); requestAnimationFrame(draw); }
    if (at("problem").dataset.gone) { delete at("problem").dataset.gone; complain(""); logIn(); }
  };
  // The browser connects again by itself, also after a restart of the program.
  stream.onerror = () => {
    if (newest?.state === "stopping" || newest?.state === "stopped") {
      newest.state = "stopped"; newest.commands = []; draw();
      complain("the run has ended; this is its last state.");
      at("problem").dataset.gone = "yes";
      return;
    }
    at("state").textContent = "no connection"; at("state").className = "state gone";
    complain("no connection to the program; trying again.");
    at("problem").dataset.gone = "yes";
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 1000);
  };
}

const keys = { s: "start", p: "pause", r: "resume", x: "stop" };

function listen() {
  for (const button of document.querySelectorAll("[data-command]")) {
    button.addEventListener("click", () => command(button.dataset.command));
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) { if (event.key === "Escape") event.target.blur(); return; }
    if (event.key === "/") { event.preventDefault(); at("filter").focus(); return; }
    const row = event.target.closest?.("tr[data-source]");
    if (row && event.key === "Enter") choose(row);
    if (keys[event.key]) command(keys[event.key]);
  });
  at("sources").addEventListener("click", (event) => choose(event.target.closest("tr[data-source]")));
  at("filter").addEventListener("input", drawSources);
  at("span").addEventListener("change", drawHistory);
  at("remark").addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = event.target.elements.text;
    if (await post("/api/command", { remark: field.value })) field.value = "";
  });
  addEventListener("resize", () => {
    packetsChart.setSize({ width: at("chart-packets").clientWidth, height: 170 });
    eventsChart.setSize({ width: at("chart-events").clientWidth, height: 170 });
    curveChart?.plot.setSize({ width: at("curve").clientWidth, height: 170 });
  });
}

function choose(row) {
  if (!row) return;
  chosen = Number(row.dataset.source);
  drawSources();
  drawPacket();
}

packetsChart = chart(at("chart-packets"), [
  { label: "packets/s, least", stroke: colour("--sky") },
  { label: "packets/s, most", stroke: colour("--blue") },
  { label: "lost/s", stroke: colour("--loss") },
], "time");
eventsChart = chart(at("chart-events"), [
  { label: "events/s", stroke: colour("--good") },
  { label: "incomplete/s", stroke: colour("--loss") },
], "time");
listen();
logIn();
follow();
setInterval(drawHistory, 1000);
setInterval(drawPacket, 500);
