// Numbers as people read them.

export function si(value, unit) {
  if (!Number.isFinite(value)) return "–";
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [by, letter] = steps.find(([by]) => Math.abs(value) >= by) ?? [1, ""];
  const scaled = value / by;
  const digits = by === 1 ? (Number.isInteger(scaled) ? 0 : 1) : scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return `${scaled.toFixed(digits)} ${letter}${unit}`.trim();
}

export const count = (value) => (value ?? 0).toLocaleString("en");

export function time(ns) {
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(2)} s`;
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${(ns / 1e3).toFixed(1)} µs`;
}

export function clock(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const whole = Math.floor(seconds);
  const two = (value) => String(value).padStart(2, "0");
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

// A plain number with at most six digits.
export const plain = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(6))) : "–");

export const date = (ns) => (ns ? new Date(ns / 1e6).toLocaleString() : "");
