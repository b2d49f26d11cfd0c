// Elements. Every text goes in as text, never as HTML: names come from packets and files.

export const at = (id) => document.getElementById(id);

const svg = new Set(["svg", "g", "rect", "text", "path", "title", "circle", "line"]);

export function make(tag, attributes = {}, text = "") {
  const of = svg.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) of.setAttribute(name, value);
  if (text) of.textContent = text;
  return of;
}

/** Changes a text only where it differs, so that the browser lays out nothing for equal ones. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Makes the rows of a table body, `cells` each; keeps those that are there. */
export function rows(body, wanted, cells, number = () => false) {
  while (body.rows.length > wanted) body.deleteRow(-1);
  while (body.rows.length < wanted) {
    const row = body.insertRow();
    for (let cell = 0; cell < cells; cell++) row.insertCell().className = number(cell) ? "n" : "";
  }
  return body.rows;
}

// Widths, known without asking for a layout.
const widths = new WeakMap();
const watched = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const of = widths.get(target);
    if (Math.abs(of.width - contentRect.width) < 1) continue;
    of.width = contentRect.width;
    of.changed?.(contentRect.width);
  }
});

/** Returns the width of an element; `changed` is called with each new one. */
export function width(element, changed) {
  if (!widths.has(element)) {
    widths.set(element, { width: element.getBoundingClientRect().width });
    watched.observe(element);
  }
  if (changed) widths.get(element).changed = changed;
  return widths.get(element).width;
}

/** Returns the size of the type, where 1 is that of a desk: drawings grow with it. */
export const scale = () => (parseFloat(getComputedStyle(document.documentElement).fontSize) || 15) / 15;

/**
 * Shortens a text to about `room` pixels of type of `size` pixels. Estimated, since measuring asks
 * for a layout; half of the size is a letter's width, or less.
 */
export function shorten(text, room, size) {
  const letters = Math.max(4, Math.floor(room / (size * 0.54)));
  return text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
}

/** Returns a function that runs `work` at most once in `ms`, and after the last call. */
export function seldom(ms, work) {
  let last = 0, waits = false;
  const run = () => { waits = false; last = performance.now(); work(); };
  return () => {
    const rest = last + ms - performance.now();
    if (rest <= 0) run();
    else if (!waits) { waits = true; setTimeout(run, rest); }
  };
}
