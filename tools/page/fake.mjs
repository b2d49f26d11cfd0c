// A server in the place of the program: the page's own files and headers, and snapshots that a test
// writes, so that the page can be seen in states that a real run reaches seldom.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const TICK_MS = 100;
/** The time of the first snapshot [ns since 1970]. */
export const BEGAN_NS = 1_764_427_500_000_000_000;
const second = 1e9;

const sentence = "required source board 2 is silent for 12 s; 100 % of the events of the last 10 s lack it";
const alarm = (more) => ({
  name: "source-silent/board 2", rule: "source-silent", about: "board 2", severity: "alarm", state: "active",
  acknowledged: false, shelved_until_ns: null, since_ns: BEGAN_NS + 108 * second, cleared_ns: null, sentence,
  advice: "check its power and cable; `fluxline doctor` looks at the host", ...more,
});
const filling = alarm({
  name: "disk-short", rule: "disk-short", about: "disk", severity: "warning", since_ns: BEGAN_NS + 60 * second,
  sentence: "the disk is full in 50 min at the rate of now", advice: "free space, or stop the run in time",
});

/** The health of a run: ok, warning or alarm. */
export const healths = {
  ok: { state: "ok", sentence: "all 8 required sources send; 100 % of the events of the last 10 s are complete", since_ns: BEGAN_NS + 3 * second, advice: "", alarms: [] },
  warning: { state: "warning", sentence: filling.sentence, since_ns: filling.since_ns, advice: filling.advice, alarms: [filling] },
  alarm: {
    state: "alarm", sentence, since_ns: BEGAN_NS + 108 * second, advice: alarm().advice,
    alarms: [alarm(), filling,
      alarm({ name: "losses/board 5", rule: "losses", about: "board 5", severity: "warning", state: "cleared", since_ns: BEGAN_NS + 31 * second, cleared_ns: BEGAN_NS + 44 * second, sentence: "board 5 lost 0.4 % of its packets", advice: "" }),
      alarm({ name: "clock", rule: "clock", about: "clock", severity: "warning", shelved_until_ns: BEGAN_NS + 1800 * second, since_ns: BEGAN_NS, sentence: "the clock of this computer is not kept in time", advice: "" })],
  },
};

function sourceOf(number, { dead, packets, lost }) {
  return {
    number, label: `board ${number}`, input: 0, packets, bytes: packets * 4096, rate: dead ? 0 : 2500, lost, restarts: 0, reordered: 0,
    duplicate: 0, recorded: packets, fragments: packets, missing: dead ? 42_000 : 0, state: dead ? "dead" : "live", silent_ms: dead ? 12_300 : 40,
  };
}

/** Returns a snapshot: "ok", "warning" or "alarm"; `packets` of each source make numbers long. */
export function snapshot(kind = "ok", packets = 312_456) {
  const ill = kind === "alarm";
  const all = packets * 8;
  const lost = !ill ? 0 : packets > 1e9 ? Math.floor(packets / 97) : 1234;
  const sources = Array.from({ length: 8 }, (_, number) => sourceOf(number, { dead: ill && number === 2, packets, lost: number === 5 ? lost : 0 }));
  const value = (value, unit) => ({ value, unit });
  const end = (name, count, fate, advice = "") => ({ name, count, fate, unit: "datagrams", stage: "source", advice });
  return {
    run: "shift 12", folder: "/data/runs/0042", at_ns: BEGAN_NS + 120 * second, seconds: 120, tick: 1200, state: "running", commands: ["pause", "stop"], shot: 4711,
    remarks: [{ at_ns: BEGAN_NS + 20 * second, text: "beam on" }], notes: ill ? ["board 2 is silent"] : [],
    rates: { packets: value(ill ? 17_500 : 20_000, "packets/s"), bits: value(6.5e8, "bit/s"), events: value(2500, "events/s"), incomplete: value(ill ? 2500 : 0, "events/s"), lost: value(0, "packets/s"), recorded: value(8.1e7, "byte/s") },
    ring_percent: 4, free_bytes: kind === "ok" ? 4.1e12 : 2.4e11, recorded_bytes: all * 4096,
    flow: { expected: all + lost, lost, received: all, to_builder: all, in_flight: 96, ends: [end("recorded", all, "recorded"), ...(ill ? [end("socket dropped", lost, "dropped", "raise net.core.rmem_max")] : [])], host: { nic_dropped: 0, softnet_dropped: 0 } },
    inputs: [{ name: "boards", listens: ["0.0.0.0:8066"], rate: 20_000, datagrams: all, bytes: all * 4096, ring_full: 0, socket_dropped: lost, rejected: 0, frames: 0, frames_lost: 0 }],
    events: { built: packets, incomplete: ill ? 42_000 : 0, paused: 0, delay_counts: [{ up_to_ns: 2e5, events: packets - 4000 }, { up_to_ns: 4e5, events: 3900 }, { up_to_ns: 8e5, events: 100 }] },
    delays: { events: 2500, p50_ns: 181_000, p90_ns: 250_000, p99_ns: 390_000, p999_ns: 600_000, max_ns: 780_000 },
    sources, health: healths[kind],
  };
}

/** Returns a history of the shape that the server gives; in an ill run, board 2 dies. */
export function history(ticks, tick_ns, ill, more = {}) {
  const step = Math.max(1, Math.ceil(ticks / 400));
  const dies = Math.floor(ticks * 0.9);
  const series = (unit, of) => {
    const values = Array.from({ length: Math.floor(ticks / step) }, (_, index) => of(index * step));
    return { unit, first: 0, step, least: values.map((value) => value * 0.97), greatest: values };
  };
  const wave = (tick, by) => by * (1 + 0.02 * Math.sin(tick / 17) + 0.01 * Math.sin(tick / 3.1));
  return {
    ticks, ...more,
    series: {
      packets: series("packets/s", (tick) => wave(tick, ill && tick > dies ? 17_500 : 20_000)),
      bits: series("bit/s", (tick) => wave(tick, 6.5e8)),
      events: series("events/s", (tick) => wave(tick, 2500)),
      incomplete: series("events/s", (tick) => (ill && tick > dies ? wave(tick, 2500) : 0)),
      lost: series("packets/s", (tick) => (ill && Math.floor(tick / step) % 97 === 60 ? 410 : 0)),
      recorded: series("byte/s", (tick) => wave(tick, ill && tick > dies ? 7.1e7 : 8.1e7)),
      ...(more.tick_ns === undefined ? {} : { fullest_ring: series("%", (tick) => 4 + (tick % 31) / 10) }),
    },
  };
}

/** Returns the state of a run folder, with the alarms that the run had. */
export function runState(more = {}) {
  const { sources, flow, inputs, events, recorded_bytes } = snapshot("alarm");
  return {
    recorded_run: true, run: "shift 12", folder: "/data/runs/0042", state: "finished", seconds: 3600, began_ns: BEGAN_NS, shot: 4711,
    sentence: "312,456 events recorded, 13 % of them incomplete", remarks: [], notes: [], faults: [], page: null, commands: [], flow, inputs,
    reading: { complete: true, batches: 812, events: events.built, packets: 2_499_648, bytes: recorded_bytes },
    events: { ...events, by_status: {} }, recorded_bytes, sources,
    health: { alarms: [{ ...alarm(), ended: true }, alarm({ name: "losses/board 5", severity: "warning", state: "cleared", since_ns: BEGAN_NS + 31 * second, cleared_ns: BEGAN_NS + 44 * second, sentence: "board 5 lost 0.4 % of its packets", advice: "", ended: true })] }, ...more,
  };
}

/** Returns the policy of guard.rs: the page must live with the one that it gets from the program. */
function policyOf(web) {
  const text = readFileSync(join(web, "../src/guard.rs"), "utf8");
  return text.match(/"content-security-policy",\s*"([^"]*)"/)[1].replace(/\\\n\s*/g, "");
}

/** Returns the files that web.rs serves, by their paths: a file that it lacks is missing here, too. */
function filesOf(web) {
  const text = readFileSync(join(web, "../src/web.rs"), "utf8");
  const files = [...text.matchAll(/"(\/[^"]*)" is "([^"]+)";/g)];
  return new Map(files.map(([, path, file]) => [path, readFileSync(join(web, file))]));
}

const types = { js: "text/javascript", css: "text/css" };

/** Serves the page of a repository on a free port of loopback, or on `port`. */
export async function fake(repository, { port = 0, operator = true, runs = null } = {}) {
  const web = join(repository, "crates/fluxline-serve/web");
  const [files, policy] = [filesOf(web), policyOf(web)];
  const streams = new Set();
  const program = { state: snapshot(), sends: true, answer: { status: 200, body: { state: "running" } }, commands: [], runs, streams };

  const json = (answer, status, body) => { answer.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body)); };
  const send = (stream) => stream.write(`data: ${JSON.stringify(program.state)}\n\n`);
  const routes = {
    "/api/session": (_, answer) => json(answer, 200, { operator, ...(program.runs ? { runs: true, operator: false } : {}) }),
    "/api/state": (_, answer) => json(answer, 200, program.state),
    "/api/history": (_, answer) => json(answer, 200, history(program.state.tick, 1e8, program.state.health?.state === "alarm")),
    "/api/events": (request, answer) => {
      answer.writeHead(200, { "content-type": "text/event-stream" });
      streams.add(answer);
      request.on("close", () => streams.delete(answer));
      if (program.sends) send(answer);
    },
    "/api/command": async (request, answer) => {
      let text = "";
      for await (const part of request) text += part;
      program.commands.push(JSON.parse(text));
      json(answer, program.answer.status, program.answer.body);
    },
    "/api/runs": (_, answer) => json(answer, 200, { folder: "/data/runs", runs: Object.keys(program.runs).map((id) => ({ id, name: "shift 12", state: "finished", began_ns: BEGAN_NS, seconds: 3600, bytes: 1e10, recorded: 312_456, lost: 0 })) }),
  };
  const ofRun = (path, answer) => {
    const [, id, what] = path.match(/^\/api\/runs\/([^/]+)\/(\w+)$/) ?? [];
    const run = program.runs?.[id];
    if (!run) return json(answer, 404, { error: `${path} does not exist.` });
    if (what === "state") return json(answer, 200, run.state);
    if (what === "events") return json(answer, 200, { events: [], next: null });
    if (what === "history" && run.history) return json(answer, 200, run.history);
    return json(answer, 404, { error: what === "history" ? "this run has no history: it was recorded before there was one." : "nothing." });
  };
  const server = createServer((request, answer) => {
    const path = new URL(request.url, "http://localhost").pathname;
    answer.setHeader("content-security-policy", policy);
    answer.setHeader("cache-control", "no-store");
    if (files.has(path)) return answer.setHeader("content-type", types[path.split(".")[1]] ?? "text/html; charset=utf-8").end(files.get(path));
    return (routes[path] ?? (() => ofRun(path, answer)))(request, answer);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const ticks = setInterval(() => {
    if (!program.sends) return;
    const { at_ns, seconds, tick } = program.state;
    program.state = { ...program.state, at_ns: at_ns + TICK_MS * 1e6, seconds: seconds + TICK_MS / 1000, tick: tick + 1 };
    streams.forEach(send);
  }, TICK_MS);
  ticks.unref();
  program.url = `http://127.0.0.1:${server.address().port}/`;
  program.close = () => { clearInterval(ticks); server.closeAllConnections(); return new Promise((resolve) => server.close(resolve)); };
  return program;
}
