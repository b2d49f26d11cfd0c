// A shape for each condition, for the banner, the list of alarms and the icon of the tab: shapes
// differ as well as colours, so that they are told apart without colours.
import { make } from "./dom.js";

const shapes = {
  ok: [["circle", { cx: 16, cy: 16, r: 10, fill: "none", "stroke-width": 4 }]],
  unknown: [["circle", { cx: 16, cy: 16, r: 10, fill: "none", "stroke-width": 4 }]],
  waiting: [["circle", { cx: 16, cy: 16, r: 10, fill: "none", "stroke-width": 4, "stroke-dasharray": "4 5" }]],
  warning: [["path", { d: "M16 3 L30 28 H2 Z", "stroke-width": 2, "stroke-linejoin": "round" }], ["path", { d: "M16 12 V20 M16 23 V25.5", class: "mark", "stroke-width": 3.5 }]],
  alarm: [["path", { d: "M10 2.5 H22 L29.5 10 V22 L22 29.5 H10 L2.5 22 V10 Z", "stroke-width": 2.5 }], ["path", { d: "M16 7 V18 M16 22 V25.5", class: "mark", "stroke-width": 4.5 }]],
  stale: [["path", { d: "M4 4 L28 28 M28 4 L4 28", "stroke-width": 6 }]],
  ended: [["rect", { x: 6, y: 6, width: 20, height: 20, "stroke-width": 2 }]],
};

// The icon of a tab lies on grounds of every colour, so it does not follow the page's colours.
const iconColours = { warning: ["#e6a700", "#1b1b1b"], alarm: ["#d43d00", "#fff"], stale: ["#d43d00", "#fff"] };

/** Puts the shape of a condition into an svg element, once for each change. */
export function drawSymbol(svg, level) {
  if (svg.dataset.level === level) return;
  svg.dataset.level = level;
  svg.replaceChildren(...(shapes[level] ?? shapes.unknown).map(([tag, attributes]) => make(tag, attributes)));
}

/** Returns the icon of a condition as an address that contains it. */
export function icon(level) {
  const [colour, mark] = iconColours[level] ?? ["#8a8a8a", "#fff"];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 32 32");
  for (const [tag, attributes] of shapes[level] ?? shapes.unknown) {
    const of = attributes.class === "mark" ? mark : colour;
    svg.append(make(tag, { stroke: of, ...(attributes.fill ? {} : { fill: of }), ...attributes }));
  }
  return `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
}
