// The network of a run: sources, the inputs that receive them, this node; rates and losses.
import { at, make, scale, shorten, width } from "./dom.js";
import { count, si } from "./numbers.js";
import { store } from "./store.js";

const shown = 24;     // sources drawn one by one; the rest of an input is one line

// Height of a source [px at the size of a desk].
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

function sourceParts(entry, y, toX, toY, x, by) {
  const { source, rest } = entry;
  const rate = source ? source.rate : rest.reduce((sum, one) => sum + one.rate, 0);
  const state = source ? health(source) : rest.some((one) => health(one) !== "well") ? "lossy" : "well";
  const words = source ? source.label : `${rest.length} more sources`;
  const lost = source?.lost ? `${count(source.lost)} lost` : "";
  // On a phone there is room for one of the two.
  const more = state === "dead" ? "silent" : [x.narrow && lost ? "" : si(rate, "/s"), lost].filter(Boolean).join(", ");
  const bend = (x.source + toX) / 2;
  const path = make("path", {
    d: `M${x.source} ${y} C${bend} ${y} ${bend} ${toY} ${toX} ${toY}`, class: `link ${state}`,
    "stroke-width": thick(rate),
  });
  // The name gives way, and not what is said about it.
  const name = shorten(words, x.source - 12 * by - `: ${more}`.length * 12 * by * 0.54, 12 * by);
  const text = make("text", { x: x.source - 10 * by, y: y + 4 * by, "text-anchor": "end" }, `${name}: ${more}`);
  text.append(make("title", {}, `${words}: ${more}`));
  return [path, make("circle", { cx: x.source, cy: y, r: 5 * by, class: state }), text];
}

const dropsOf = (input) => input.ring_full + input.socket_dropped + input.rejected;

/** Returns what is said about an input, a line each. */
function wordsOf(input) {
  const dropped = dropsOf(input);
  return [
    input.name, (input.listens ?? []).join(", "), `${count(input.datagrams)} datagrams`,
    dropped ? `${count(dropped)} dropped or rejected` : "",
    input.frames > 0 ? `${count(input.frames)} frames, ${count(input.frames_lost)} lost` : "",
  ].filter(Boolean);
}

function inputParts(input, y, below, x, middle, by) {
  const state = dropsOf(input) > 0 ? "lossy" : "well";
  const bend = (x.input + x.node) / 2;
  const room = 2 * Math.min(x.input - x.source - 8 * by, x.words - x.input);
  const texts = wordsOf(input).map((words, row) => {
    const place = { x: x.input, y: below + row * 15 * by, "text-anchor": "middle", class: row ? "quiet" : "" };
    const text = make("text", place, shorten(words, room, 12 * by));
    text.append(make("title", {}, words));
    return text;
  });
  return [
    make("path", { d: `M${x.input} ${y} C${bend} ${y} ${bend} ${middle} ${x.node} ${middle}`, class: `link ${state}`, "stroke-width": thick(input.rate) }),
    make("rect", { x: x.input - 8 * by, y: y - 8 * by, width: 16 * by, height: 16 * by, rx: 3, class: state }),
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
  const by = scale();
  const room = Math.max(2, Math.floor(shown / inputs.length));
  const groups = inputs.map((input, number) => ({ input, entries: drawn(sources.filter((source) => source.input === number), room) }));
  // On a phone the words of an input stand below its links, since beside them there is no room.
  const narrow = wide < 600 * by;
  const heights = groups.map(({ input, entries }) => {
    const [links, words] = [entries.length * line, 15 * wordsOf(input).length];
    return by * (narrow ? links + words + 30 : Math.max(links, 2 * (20 + words)));
  });
  const tall = heights.reduce((sum, height) => sum + height, 0) + 10 * by;
  const x = { narrow, source: wide * 0.38, input: wide * 0.66, node: wide * 0.93 };
  // The name of the node stands above it, where one input has no words, and several may have some.
  x.words = inputs.length > 1 ? x.node - 35 * by : x.node + 20 * by;
  const parts = [];
  let top = 5 * by;
  groups.forEach(({ input, entries }, number) => {
    const y = top + (narrow ? entries.length * line * by : heights[number]) / 2;
    const below = narrow ? y + (entries.length * line / 2 + 16) * by : y + 22 * by;
    const first = y - (entries.length - 1) * line * by / 2;
    entries.forEach((entry, row) => parts.push(...sourceParts(entry, first + row * line * by, x.input, y, x, by)));
    parts.push(...inputParts(input, y, below, x, tall / 2, by));
    top += heights[number];
  });
  parts.push(make("rect", { x: x.node - 8 * by, y: tall / 2 - 24 * by, width: 16 * by, height: 48 * by, rx: 4, class: "node" }));
  parts.push(make("text", { x: Math.min(x.node + 30 * by, wide - 4), y: tall / 2 - 32 * by, "text-anchor": "end" }, "this node"));
  svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
  svg.style.height = `${tall}px`;
  svg.replaceChildren(...parts);
}
