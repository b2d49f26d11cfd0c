"use strict";
// Draws the plots of the page from the data that it carries, and follows theme, width and pointer.
(function () {
  const root = document.documentElement;
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const drawn = new Map();
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = theme_kept();
  root.classList.add("script");

  // ---- Theme: from the address (#theme=dark), else as chosen before, else as the system has it.
  function theme_kept() {
    const asked = /theme=(dark|light)/.exec(location.hash);
    if (asked) return asked[1];
    try { return localStorage.getItem("fluxline-theme"); } catch (refused) { return null; }
  }
  function theme_set() {
    const theme = chosen || (systemDark.matches ? "dark" : "light");
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", "Use the " + (theme === "dark" ? "light" : "dark") + " theme");
    draw_all();
  }
  document.getElementById("theme").addEventListener("click", function () {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("fluxline-theme", chosen); } catch (refused) { /* stays for now */ }
    theme_set();
  });
  systemDark.addEventListener("change", theme_set);
  addEventListener("beforeprint", function () { root.dataset.theme = "light"; draw_all(); });
  addEventListener("afterprint", theme_set);

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const faint = (hex, part) => hex + Math.round(part * 255).toString(16).padStart(2, "0");

  // ---- Numbers.
  const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const BINARY = [[2 ** 40, "Ti"], [2 ** 30, "Gi"], [2 ** 20, "Mi"], [2 ** 10, "Ki"]];
  // Times and rates have a fitting unit at each tick, and none at the axis.
  const SECONDS = { ps: 1e-12, ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1 };
  const FACTORS = { "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  const SCALED = [...PREFIXES, [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
  const plain = (value) => String(Number(value.toPrecision(4)));
  function base_of(unit) {
    if (unit in SECONDS) return { factor: SECONDS[unit], name: "s", least: 1e-12, most: 1 };
    const rate = /^([kMGT]?)(b\/s|B\/s|\/s)$/.exec(unit);
    return rate && { factor: FACTORS[rate[1]], name: rate[2], least: 1, most: 1e12 };
  }
  function scaled(value, base, digits) {
    const whole = value * base.factor, size = Math.abs(whole) * (1 + 1e-9);
    const fitting = SCALED.filter(([one]) => one >= base.least && one <= base.most);
    const [one, prefix] = fitting.find(([one]) => size >= one) || fitting[fitting.length - 1];
    return Number((whole / one).toPrecision(digits)) + " " + prefix + base.name;
  }
  function tick(value, unit) {
    if (value === 0) return "0";
    const base = base_of(unit);
    if (base) return scaled(value, base, 4);
    const size = Math.abs(value);
    if (unit === "B" && size >= 1024 && size % 1024 === 0) {
      const [one, name] = BINARY.find(([one]) => size >= one);
      return plain(value / one) + " " + name + "B";
    }
    if (size < 1e-3) return value.toExponential().replace("e-", "e−");
    const found = PREFIXES.find(([one]) => size >= one);
    return found ? plain(value / found[0]) + " " + found[1] : plain(value);
  }
  function shown(value, unit) {
    if (value === null || value === undefined) return "–";
    const base = base_of(unit);
    if (base && value !== 0) return scaled(value, base, 3);
    const size = Math.abs(value);
    if (unit === "B" && size >= 1024 && size % 1024 === 0) return tick(value, unit);
    if (size !== 0 && size < 1e-3) return value.toExponential(3);
    const text = size >= 1000 ? Math.round(value).toString() : plain(value);
    return text.replace(/\B(?=(\d{3})+$)/g, size >= 10000 ? "\u202f" : "");
  }
  const named = (axis) => (axis.unit && !base_of(axis.unit) ? axis.label + " [" + axis.unit + "]" : axis.label);

  // ---- Axes.
  function range(values, axis, isY) {
    const usable = values.filter((v) => v !== null && (!axis.log || v > 0));
    if (usable.length === 0) return axis.log ? [1, 10] : [0, 1];
    let low = Infinity, high = -Infinity;
    for (const v of usable) { low = Math.min(low, v); high = Math.max(high, v); }
    if (axis.log) {
      const room = low === high ? 2 : Math.pow(high / low, 0.04);
      return [low / room, high * room];
    }
    const span = high - low || Math.abs(high) || 1;
    const fromZero = low >= 0 && (isY || low < 0.3 * high);
    if (low === high && !fromZero) return [low - span / 2, high + span / 2];
    return [fromZero ? 0 : low - 0.03 * span, high === 0 && low < 0 ? 0 : high + 0.05 * span];
  }
  // Where ticks are on a logarithmic axis: powers of two for bytes, else decades, with 2 and 5
  // between them where few decades are in sight.
  function log_ticks(low, high, unit, room) {
    const found = [];
    if (unit === "B") {
      const first = Math.ceil(Math.log2(low) - 1e-9), last = Math.floor(Math.log2(high) + 1e-9);
      const step = Math.max(1, Math.ceil((last - first + 1) / room));
      for (let power = Math.ceil(first / step) * step; power <= last; power += step) found.push(2 ** power);
      return found;
    }
    const decades = Math.log10(high / low);
    const parts = decades < 0.7 ? [1, 1.5, 2, 3, 4, 5, 6, 8] : decades * 3 <= room ? [1, 2, 5] : [1];
    const step = parts.length > 1 ? 1 : Math.max(1, Math.ceil(decades / room));
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1; power += step) {
      for (const part of parts) {
        const value = Number((part * Math.pow(10, power)).toPrecision(3));
        if (value >= low && value <= high) found.push(value);
      }
    }
    return found;
  }
  function axis_of(plot, axis, isY) {
    const side = {
      stroke: colour("soft"), label: named(axis), labelSize: 20, labelFont: "13px system-ui, sans-serif",
      font: "12px system-ui, sans-serif", size: isY ? side_width : 34, gap: 5, labelGap: isY ? 2 : 0,
      grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("rule"), width: 1, size: 5 },
      values: (u, splits) => splits.map((value) => (value === null ? "" : tick(value, axis.unit))),
      space: isY ? 38 : 60,
    };
    if (axis.log) {
      side.splits = (u, index, low, high) =>
        log_ticks(low, high, axis.unit, Math.max(2, (isY ? u.bbox.height / 38 : u.bbox.width / 60) / devicePixelRatio));
      side.filter = (u, splits) => splits;
    }
    return side;
  }
  function side_width(u, values) {
    const longest = (values || []).reduce((most, text) => Math.max(most, String(text || "").length), 2);
    return Math.ceil(longest * 7) + 14;
  }

  // ---- Curves: those of one plot share the x values; what a curve lacks there stays open.
  function joined(plot) {
    const tables = plot.curves.map((curve) => [curve.x, curve.y.map((y) => (plot.y.log && y !== null && y <= 0 ? null : y))]);
    if (tables.length === 0) return [plot.marks.map((mark) => mark.x).sort((a, b) => a - b)];
    return uPlot.join(tables);
  }
  function series_of(plot, curve, index) {
    const ink = colour("c" + (index + 1));
    const few = curve.x.length <= 80;
    const line = {
      label: curve.label, stroke: ink, width: 2, scale: "y",
      points: { show: few && curve.style === "line", size: 6, fill: ink },
      value: (u, value) => shown(value, plot.y.unit),
    };
    if (curve.style === "dashed") line.dash = [7, 5];
    if (curve.style === "points") {
      line.paths = () => null;
      line.points = { show: true, size: 7, fill: faint(ink, 0.75) };
    }
    if (curve.style === "steps") {
      line.paths = uPlot.paths.stepped({ align: 1 });
      line.fill = faint(ink, 0.18);
      line.width = 1.5;
    }
    return line;
  }
  // The nearest point that the curve has, within 60 pixels of the pointer.
  function nearest(u, index, hovered) {
    const ys = u.data[index], xs = u.data[0];
    if (index === 0 || ys[hovered] !== undefined) return hovered;
    let left = hovered, right = hovered;
    while (left >= 0 && ys[left] === undefined) left--;
    while (right < ys.length && ys[right] === undefined) right++;
    const away = (at) => (at < 0 || at >= ys.length ? Infinity : Math.abs(u.valToPos(xs[at], "x") - u.cursor.left));
    const best = away(left) <= away(right) ? left : right;
    return away(best) < 60 ? best : hovered;
  }

  // ---- What uPlot does not draw.
  function draw_bands(plot) {
    return function (u) {
      const pen = u.ctx;
      pen.save();
      pen.beginPath();
      pen.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      pen.clip();
      plot.curves.forEach(function (curve, index) {
        if (!curve.low || !u.series[index + 1].show) return;
        pen.fillStyle = faint(colour("c" + (index + 1)), 0.2);
        for (const [from, to] of runs(curve)) fill_between(u, plot, curve, from, to);
      });
      pen.restore();
    };
  }
  function runs(curve) {
    const found = [];
    let from = -1;
    for (let i = 0; i <= curve.x.length; i++) {
      const open = i < curve.x.length && curve.low[i] !== null && curve.high[i] !== null;
      if (open && from < 0) from = i;
      if (!open && from >= 0) { found.push([from, i]); from = -1; }
    }
    return found;
  }
  function fill_between(u, plot, curve, from, to) {
    const pen = u.ctx, floor = u.scales.y.min;
    const x = (i) => u.valToPos(curve.x[i], "x", true);
    const y = (value) => u.valToPos(plot.y.log && value <= 0 ? floor : value, "y", true);
    pen.beginPath();
    if (to - from === 1) {
      pen.rect(x(from) - 3, y(curve.high[from]), 6, y(curve.low[from]) - y(curve.high[from]));
    } else {
      for (let i = from; i < to; i++) pen.lineTo(x(i), y(curve.high[i]));
      for (let i = to - 1; i >= from; i--) pen.lineTo(x(i), y(curve.low[i]));
    }
    pen.closePath();
    pen.fill();
  }
  function draw_marks(plot) {
    return function (u) {
      const pen = u.ctx, ratio = devicePixelRatio, size = 5 * ratio;
      const { left, top, width, height } = u.bbox;
      const marks = plot.marks
        .map((mark) => ({ text: mark.text, x: u.valToPos(mark.x, "x", true), y: u.valToPos(mark.y, "y", true) }))
        .filter(({ x, y }) => x >= left - 1 && x <= left + width + 1 && y >= top - 1 && y <= top + height + 1);
      // Boxes that no text may cover: left, right, middle, half height.
      const taken = marks.map(({ x, y }) => [x - size, x + size, y, size]);
      pen.save();
      pen.font = 12 * ratio + "px system-ui, sans-serif";
      pen.textBaseline = "middle";
      pen.textAlign = "left";
      for (const mark of marks) write_beside(u, mark, taken, pen.measureText(mark.text).width);
      for (const mark of marks) diamond(pen, mark.x, mark.y, size);
      pen.restore();
    };
  }
  function write_beside(u, mark, taken, long) {
    const pen = u.ctx, ratio = devicePixelRatio, line = 15 * ratio, gap = 9 * ratio;
    const { left, top, width, height } = u.bbox;
    const free = ([x, y]) => x >= left && x + long <= left + width && y - line / 2 >= top && y + line / 2 <= top + height
      && taken.every((box) => x > box[1] || x + long < box[0] || Math.abs(y - box[2]) >= box[3] + line / 2);
    const places = [];
    for (const lift of [0, -1, 1, -2, 2, -3, 3]) {
      const y = mark.y + lift * line;
      places.push([mark.x + gap, y], [mark.x - gap - long, y], [mark.x - long / 2, y]);
    }
    const [x, y] = places.find(free) || [Math.max(left, Math.min(mark.x + gap, left + width - long)), mark.y];
    taken.push([x, x + long, y, line / 2]);
    pen.lineWidth = 4 * ratio;
    pen.lineJoin = "round";
    pen.strokeStyle = colour("ground");
    pen.strokeText(mark.text, x, y);
    pen.fillStyle = colour("ink");
    pen.fillText(mark.text, x, y);
  }
  function diamond(pen, x, y, size) {
    pen.beginPath();
    pen.moveTo(x, y - size); pen.lineTo(x + size, y); pen.lineTo(x, y + size); pen.lineTo(x - size, y);
    pen.closePath();
    pen.fillStyle = colour("ground");
    pen.fill();
    pen.lineWidth = 2 * devicePixelRatio;
    pen.strokeStyle = colour("ink");
    pen.stroke();
  }

  // ---- A plot.
  function height_of(width) { return Math.max(240, Math.min(380, Math.round(width * 0.58))); }
  function y_values(plot, u) {
    let found = plot.marks.map((mark) => mark.y);
    plot.curves.forEach(function (curve, index) {
      if (u.series[index + 1] && !u.series[index + 1].show) return;
      found = found.concat(curve.y, curve.low || [], curve.high || []);
    });
    return found;
  }
  function options(plot, width) {
    const xs = plot.curves.map((curve) => curve.x).concat([plot.marks.map((mark) => mark.x)]).flat();
    const full = range(xs, plot.x, false);
    // Dragging zooms x; uPlot then asks with what was dragged, and a double click with all.
    const x_range = (u, low, high) =>
      (low === null || low === u.data[0][0] && high === u.data[0][u.data[0].length - 1]) ? full : [low, high];
    return {
      width: width, height: height_of(width), padding: [10, 14, 0, 0],
      scales: {
        x: { time: false, distr: plot.x.log ? 3 : 1, range: x_range },
        y: { distr: plot.y.log ? 3 : 1, range: (u) => range(y_values(plot, u), plot.y, true) },
      },
      axes: [axis_of(plot, plot.x, false), axis_of(plot, plot.y, true)],
      series: [{ label: plot.x.label || "x", value: (u, value) => shown(value, plot.x.unit) + (value != null && plot.x.unit && plot.x.unit !== "B" && !base_of(plot.x.unit) ? " " + plot.x.unit : "") }]
        .concat(plot.curves.map((curve, index) => series_of(plot, curve, index))),
      legend: { markers: {
        dash: (u, index) => (plot.curves[index - 1] && plot.curves[index - 1].style === "dashed" ? "dashed" : "solid"),
        fill: (u, index) => (plot.curves[index - 1] && plot.curves[index - 1].style !== "dashed" ? colour("c" + index) : "transparent"),
      } },
      cursor: { dataIdx: nearest, drag: { x: true, y: false }, points: { size: 9 } },
      hooks: { drawAxes: [draw_bands(plot)], draw: [draw_marks(plot)] },
    };
  }
  function draw(place, plot) {
    const width = Math.floor(place.clientWidth);
    if (width < 50) return;
    const old = drawn.get(place);
    if (old) old.destroy();
    drawn.set(place, new uPlot(options(plot, width), joined(plot), place));
    place.setAttribute("role", "img");
  }
  function draw_all() {
    document.querySelectorAll(".plot").forEach((place) => draw(place, plots[Number(place.dataset.plot)]));
  }
  const watcher = new ResizeObserver(function (changes) {
    for (const { target } of changes) {
      const old = drawn.get(target), width = Math.floor(target.clientWidth);
      if (old && width >= 50 && old.width !== width) old.setSize({ width: width, height: height_of(width) });
    }
  });
  theme_set();
  document.querySelectorAll(".plot").forEach((place) => watcher.observe(place));

  // ---- Heat maps: the value under the pointer in words.
  document.querySelectorAll("figure.map").forEach(function (map) {
    const readout = map.querySelector(".readout");
    const tell = (event) => { if (event.target.title) readout.textContent = event.target.title; };
    map.addEventListener("pointerover", tell);
    map.addEventListener("pointerleave", () => { readout.textContent = ""; });
    map.addEventListener("click", tell);
  });

  // ---- Tables to the clipboard, separated by tabs as spreadsheets like it.
  document.querySelectorAll("button.copy").forEach(function (button) {
    button.addEventListener("click", function () {
      const rows = [...button.parentElement.querySelectorAll("tr")];
      const text = rows.map((row) => [...row.cells].map((cell) => cell.textContent).join("\t")).join("\n");
      const done = () => { button.textContent = "Copied"; };
      if (navigator.clipboard) { navigator.clipboard.writeText(text).then(done, () => by_hand(text, done)); } else { by_hand(text, done); }
    });
  });
  function by_hand(text, done) {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    if (document.execCommand("copy")) done();
    area.remove();
  }
})();
