// The network of a run: sources, the inputs that receive them, this node; rates and losses.
import { at, make, width } from "./dom.js";
import { count, si } from "./numbers.js";
import { store } from "./store.js";

const shown = 24;     // sources drawn one by one; the rest of an input is one line
const line = 20;

/** Returns the width of a link's line: a rate of 1/s is thin, each factor of ten is 1.5 more. */
const thick = (rate) => Math.min(9, 1 + 1.5 * Math.log10(1 + Math.max(rate, 0)));

function health(source) {
  if (source.silent_ms > 2000 && store.mode === "live") return "dead";
  return source.lost > 0 || source.missing > 0 ? "lossy" : "well";
}

/** Returns the sources of an input to draw: lossy and silent ones first. */
function drawn(sources, room) {
  const rank = { dead: 0, lossy: 1, well: 2 };
  const list = [...sources].sort((a, b) => rank[health(a)] - rank[health(b)] || a.number - b.number);
  if (list.length <= room) return list.map((source) => ({ source }));
  const rest = list.slice(room - 1);
  return [...list.slice(0, room - 1).map((source) => ({ source })), { rest }];
}

function sourceParts(entry, y, toX, toY, x) {
  const { source, rest } = entry;
  const rate = source ? source.rate : rest.reduce((sum, one) => sum + one.rate, 0);
  const state = source ? health(source) : rest.some((one) => health(one) !== "well") ? "lossy" : "well";
  const words = source ? source.label : `${rest.length} more sources`;
  const more = state === "dead" ? "silent" : `${si(rate, "/s")}${source && source.lost ? `, ${count(source.lost)} lost` : ""}`;
  const bend = (x.source + toX) / 2;
  const path = make("path", {
    d: `M${x.source} ${y} C${bend} ${y} ${bend} ${toY} ${toX} ${toY}`, class: `link ${state}`,
    "stroke-width": thick(rate),
  });
  const text = make("text", { x: x.source - 10, y: y + 4, "text-anchor": "end" }, `${words}: ${more}`);
  text.append(make("title", {}, `${words}: ${more}`));
  return [path, make("circle", { cx: x.source, cy: y, r: 5, class: state }), text];
}

function inputParts(input, y, x, middle) {
  const dropped = input.ring_full + input.socket_dropped + input.rejected;
  const state = dropped > 0 ? "lossy" : "well";
  const bend = (x.input + x.node) / 2;
  const lines = [input.name, (input.listens ?? []).join(", "),
    `${count(input.datagrams)} datagrams${dropped ? `, ${count(dropped)} dropped or rejected` : ""}`];
  if (input.frames > 0) lines.push(`${count(input.frames)} frames, ${count(input.frames_lost)} lost`);
  const texts = lines.filter(Boolean).map((words, row) =>
    make("text", { x: x.input, y: y + 22 + row * 15, "text-anchor": "middle", class: row ? "quiet" : "" }, words));
  return [
    make("path", { d: `M${x.input} ${y} C${bend} ${y} ${bend} ${middle} ${x.node} ${middle}`, class: `link ${state}`, "stroke-width": thick(input.rate) }),
    make("rect", { x: x.input - 8, y: y - 8, width: 16, height: 16, rx: 3, class: state }),
    ...texts,
  ];
}

export function drawNetwork() {
  if (!store.state) return;
  const { inputs, sources } = store.state;
  const svg = at("network");
  svg.parentElement.hidden = !inputs?.length;
  if (!inputs?.length) return;
  const wide = width(svg.parentElement, drawNetwork) || 900;
  const room = Math.max(2, Math.floor(shown / inputs.length));
  const groups = inputs.map((input, number) => ({ input, entries: drawn(sources.filter((source) => source.input === number), room) }));
  const heights = groups.map(({ entries }) => Math.max(entries.length * line, 90));
  const tall = heights.reduce((sum, height) => sum + height, 0) + 10;
  const x = { source: wide * 0.38, input: wide * 0.66, node: wide * 0.93 };
  const parts = [];
  let top = 5;
  groups.forEach(({ input, entries }, number) => {
    const y = top + heights[number] / 2;
    const first = y - (entries.length - 1) * line / 2;
    entries.forEach((entry, row) => parts.push(...sourceParts(entry, first + row * line, x.input, y, x)));
    parts.push(...inputParts(input, y, x, tall / 2));
    top += heights[number];
  });
  parts.push(make("rect", { x: x.node - 8, y: tall / 2 - 24, width: 16, height: 48, rx: 4, class: "node" }));
  parts.push(make("text", { x: x.node, y: tall / 2 + 42, "text-anchor": "middle" }, "this node"));
  svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
  svg.style.height = `${tall}px`;
  svg.replaceChildren(...parts);
}
