// The bytes of a packet, its payload marked.
import { at, make } from "./dom.js";

export function drawBytes({ hex, payload: [start, end] }) {
  const pairs = hex.match(/../g) ?? [];
  const span = (from, to, style) => make("span", { class: style }, `${pairs.slice(from, to).join(" ")} `);
  at("bytes").replaceChildren(span(0, start, ""), span(start, end, "payload"), span(end, pairs.length, ""));
}
