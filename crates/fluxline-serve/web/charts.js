// Charts with uPlot, in the colours and sizes of the page.
import { dayOf, plain, si, timeOf, zone } from "./numbers.js";
import { scale, width } from "./dom.js";

const all = new Set();
const short = (value) => (Math.abs(value) >= 10000 ? si(value, "") : plain(value));

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Returns the labels of a time axis: with seconds where it is that fine, the day where it changes. */
function timeLabels(values, step) {
  let shown = "";
  return values.map((value) => {
    if (value === null) return "";
    const [day, time] = [dayOf(value * 1e9), timeOf(value * 1e9)];
    const words = step < 60 ? time : time.slice(0, 5);
    if (day === shown) return words;
    shown = day;
    return step < 86_400 ? `${words}\n${day}` : day;
  });
}

/** Returns the colour of a series; one of losses has no colour while there are none. */
function strokeOf({ colour: name, alert }) {
  return (plot, index) => colour(alert && !plot.data?.[index]?.some((value) => value > 0) ? "--quiet" : name);
}

/**
 * Makes a chart in `place`. A series is {label, colour}, with `alert` one of losses; `dash` draws
 * it so, `bars` draws columns, `time` has seconds since 1970 on the x axis, `unit` names the x axis, `zero` begins the y
 * axis at 0, and `select` is called with a range that was drawn by the mouse. `stepped` draws each
 * value from its x to the next one, and `logs` = {x, y} says which axes are logarithmic.
 */
export function chart(place, series, { bars = false, time = false, unit = "", select = null, height = 170, zero = false, stepped = false, logs = {} } = {}) {
  const by = scale();
  const tall = height * by;
  const font = `${12 * by}px system-ui, sans-serif`;
  const axis = { stroke: () => colour("--quiet"), font, labelFont: font, grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--line") } };
  const paths = bars ? uPlot.paths.bars({ size: [1, 100], align: 1 }) : stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
  const drawn = series.map((one) => ({
    label: one.label, stroke: strokeOf(one), width: bars ? 0 : 1.5 * by, points: { show: false }, paths, dash: one.dash ? [6 * by, 3 * by] : undefined,
    fill: bars ? () => colour(one.colour) : undefined,
    value: (_, value) => (value === null ? "–" : si(value, "")),
  }));
  // The mark of a series in the legend has its colour of now.
  const marked = (plot, index) => {
    if (index > 0) plot.root.querySelectorAll(".u-marker")[index]?.style.setProperty("border-color", plot.series[index].stroke(plot, index));
  };
  const hooks = { drawSeries: [marked], ...(select ? { setSelect: [(plot) => {
    const { left, width } = plot.select;
    if (width > 3) select(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }] } : {}) };
  const moment = (_, value) => (value === null ? "–" : `${dayOf(value * 1e9)} ${timeOf(value * 1e9)} ${zone(value * 1e9)}`);
  const x = time
    ? { size: 42 * by, space: 90 * by, values: (_, values, _axis, _space, step) => timeLabels(values, step) }
    : { size: 34 * by, label: unit || undefined, labelSize: 18 * by, values: (_, values) => values.map((value) => (value === null ? "" : short(value))) };
  const plot = new uPlot({
    width: width(place, (wide) => plot.setSize({ width: wide, height: tall })) || 400, height: tall, hooks,
    cursor: { drag: { x: true, y: false, setScale: !select } },
    scales: { x: { time, distr: logs.x ? 3 : 1 }, y: logs.y ? { distr: 3 } : bars || zero ? { range: (_, low, high) => [0, Math.max(1, high) * 1.05] } : {} },
    axes: [{ ...axis, ...x }, { ...axis, size: 60 * by, values: (_, values) => values.map((value) => (value === null ? "" : si(value, ""))) }],
    series: [{ label: unit || (time ? "time" : ""), ...(time ? { value: moment } : {}) }, ...drawn],
  }, [[], ...series.map(() => [])], place);
  all.add(plot);
  return plot;
}

export function remove(plot) {
  all.delete(plot);
  plot.destroy();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all.forEach((plot) => plot.redraw()));
