// Charts with uPlot, in the colours of the page.
import { plain, si } from "./numbers.js";
import { width } from "./dom.js";

const all = new Set();
const short = (value) => (Math.abs(value) >= 10000 ? si(value, "") : plain(value));
export const palette = ["--blue", "--loss", "--good", "--warn"];

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * Makes a chart in `place`. A series is {label, colour}; `bars` draws columns, `time` has seconds
 * since 1970 on the x axis, `unit` names the x axis, and `select` is called with a range that was
 * drawn by the mouse.
 */
export function chart(place, series, { bars = false, time = false, unit = "", select = null, height = 170 } = {}) {
  const axis = { stroke: () => colour("--quiet"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--line") } };
  const paths = bars ? uPlot.paths.bars({ size: [1, 100], align: 1 }) : undefined;
  const drawn = series.map(({ label, colour: name }) => ({
    label, stroke: () => colour(name), width: bars ? 0 : 1.5, points: { show: false }, paths,
    fill: bars ? () => colour(name) : undefined,
    value: (_, value) => (value === null ? "–" : si(value, "")),
  }));
  const hooks = select ? { setSelect: [(plot) => {
    const { left, width } = plot.select;
    if (width > 3) select(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }] } : {};
  const plot = new uPlot({
    width: width(place, (wide) => plot.setSize({ width: wide, height })) || 400, height, hooks,
    cursor: { drag: { x: true, y: false, setScale: !select } },
    scales: { x: { time }, y: bars ? { range: (_, low, high) => [0, Math.max(1, high) * 1.05] } : {} },
    axes: [{ ...axis, label: unit || undefined, labelSize: 18, size: time ? 50 : 34, ...(time ? {} : { values: (_, values) => values.map(short) }) },
      { ...axis, size: 60, values: (_, values) => values.map((value) => si(value, "")) }],
    series: [{ label: unit || (time ? "time" : "") }, ...drawn],
  }, [[], ...series.map(() => [])], place);
  all.add(plot);
  return plot;
}

export function remove(plot) {
  all.delete(plot);
  plot.destroy();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all.forEach((plot) => plot.redraw()));
