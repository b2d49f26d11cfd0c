// The ledger as a flow: what was sent, where each part of it is, and what to do about losses.
import { at, make, scale, shorten, width } from "./dom.js";
import { count, countWithin } from "./numbers.js";
import { store } from "./store.js";

// The stage at which data ended; what is not named here ended on the way to the builder.
const building = ["builder full", "late dropped", "inconsistent", "duplicate in its event"];
const recording = ["write failed", "counted only"];

/** Returns the branches behind each stage: losses and what is aside. */
function branches(flow) {
  const lists = [[], [], []];
  if (flow.lost > 0) lists[0].push({ name: "missing, by packet counters", count: flow.lost, fate: "dropped", advice: "" });
  for (const end of flow.ends) {
    if (end.fate === "recorded" || end.count === 0) continue;
    const late = building.includes(end.name) || recording.includes(end.name);
    lists[late ? 2 : end.name === "socket dropped" ? 0 : 1].push(end);
  }
  if (flow.in_flight > 0) lists[2].push({ name: "in flight: in rings, open events, batches", count: flow.in_flight, fate: "aside", advice: "" });
  return lists;
}

function bands(values, x, names, by) {
  const middle = 62 * by;
  // A number ends before the next one begins, and the last one after the third.
  const letters = Math.floor((x[1] - x[0] - 12 * by) / (13 * by * 0.6));
  const most = Math.max(...values.map((value) => value ?? 0), 1);
  const height = (value) => by * Math.max(2, 60 * value / most);
  const parts = [];
  values.forEach((value, stage) => {
    if (value === null) return;
    const tall = height(value);
    parts.push(make("rect", { x: x[stage], y: middle - tall / 2, width: 10 * by, height: tall, class: stage === 3 ? "kept" : "band" }));
    if (stage < 3) {
      const next = height(values[stage + 1]);
      const [from, to] = [x[stage] + 10 * by, x[stage + 1]];
      const path = `M${from} ${middle - tall / 2} L${to} ${middle - next / 2} V${middle + next / 2} L${from} ${middle + tall / 2} Z`;
      parts.push(make("path", { d: path, class: "band" }));
    }
    const anchor = stage === 3 ? "end" : "start";
    const left = stage === 3 ? x[3] + 10 * by : x[stage];
    parts.push(make("text", { x: left, y: 14 * by, "text-anchor": anchor }, countWithin(value, stage < 2 ? letters : Math.floor(letters / 2))));
    parts.push(make("text", { x: left, y: 28 * by, "text-anchor": anchor, class: "quiet" }, names[stage]));
  });
  return parts;
}

function advise(flow) {
  const advice = flow.ends.filter((end) => end.fate === "dropped" && end.count > 0 && end.advice);
  const lines = advice.sort((a, b) => b.count - a.count).slice(0, 3).map((end) => `${end.name}: ${end.advice}`);
  if (flow.lost > 0 && flow.host.nic_dropped + flow.host.softnet_dropped === 0) {
    lines.push("missing, by packet counters: this host counted no drop, so look at the sender and the network.");
  }
  return lines;
}

export function drawFlow() {
  if (!store.state) return;
  const { flow } = store.state;
  at("no-flow").hidden = Boolean(flow);
  at("flow").style.display = flow ? "" : "none";
  if (!flow) return at("advice").replaceChildren();
  const svg = at("flow");
  const by = scale();
  const wide = width(svg.parentElement, drawFlow) || 900;
  const x = [0, 0.32, 0.64, 0.97].map((share) => 8 + share * (wide - 16));
  const recorded = flow.ends.filter((end) => end.fate === "recorded").reduce((sum, end) => sum + end.count, 0);
  const values = [flow.expected > 0 ? flow.expected : null, flow.received, flow.to_builder, recorded];
  const names = wide < 700 * by ? ["sent", "received", "events", "recorded"] : ["sent, by packet counters", "received", "in events", "recorded"];
  const parts = bands(values, x, names, by);
  const lists = branches(flow).map((list) => list.map((branch) => ({ branch, words: `${count(branch.count)} ${branch.name}` })));
  // Where the words are wider than a column, branches stand below each other.
  const room = x[1] - x[0] - 42 * by;
  const narrow = lists.flat().some(({ words }) => words.length * 13 * by * 0.54 > room);
  const columns = narrow ? [lists.flat()] : lists;
  columns.forEach((list, stage) => list.forEach(({ branch, words }, row) => {
    const y = (112 + row * 19) * by;
    const style = branch.fate === "dropped" ? "loss" : "aside";
    const left = narrow ? x[0] : x[stage] + 24 * by;
    parts.push(make("rect", { x: left, y: y - 9 * by, width: 9 * by, height: 9 * by, class: style }));
    const text = make("text", { x: left + 14 * by, y }, narrow ? shorten(words, wide - left - 20 * by, 13 * by) : words);
    if (branch.advice || narrow) text.append(make("title", {}, `${words}. ${branch.advice}`));
    parts.push(text);
  }));
  const tall = (104 + Math.max(0, ...columns.map((list) => list.length)) * 19) * by;
  svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
  svg.style.height = `${tall}px`;
  svg.replaceChildren(...parts);
  at("advice").replaceChildren(...advise(flow).map((line) => make("li", {}, line)));
}
