// Numbers and times as people read them.

export function si(value, unit) {
  if (!Number.isFinite(value)) return "–";
  const steps = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [by, letter] = steps.find(([by]) => Math.abs(value) >= by) ?? [1, ""];
  const scaled = value / by;
  const digits = by === 1 ? (Number.isInteger(scaled) ? 0 : 1) : scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return `${scaled.toFixed(digits)} ${letter}${unit}`.trim();
}

export const count = (value) => (value ?? 0).toLocaleString("en");

/** Returns a count with all digits where it has at most `letters`, and rounded otherwise. */
export const countWithin = (value, letters) => (count(value).length <= letters ? count(value) : si(value, ""));

export function time(ns) {
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(2)} s`;
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${(ns / 1e3).toFixed(1)} µs`;
}

const two = (value) => String(value).padStart(2, "0");

export function clock(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

/** Returns a span as people say it: "12 s", "2 min 5 s", "1 h 5 min", "3 d 4 h". */
export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const parts = (one, unit, rest, small) => `${one} ${unit}${rest ? ` ${rest} ${small}` : ""}`;
  if (whole < 60) return `${whole} s`;
  if (whole < 600) return parts(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86_400) return parts(Math.floor(whole / 3600), "h", Math.floor(whole / 60) % 60, "min");
  return parts(Math.floor(whole / 86_400), "d", Math.floor(whole / 3600) % 24, "h");
}

// A plain number with at most six digits.
export const plain = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(6))) : "–");

// Times are in the browser's zone, as ISO 8601 writes them, and name the zone.
const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
const timeOfDay = (at) => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;

/** Returns the zone of a time: "UTC+01:00", "UTC". */
export function zone(ns) {
  const minutes = -new Date(ns / 1e6).getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const away = Math.abs(minutes);
  return `UTC${minutes < 0 ? "-" : "+"}${two(Math.floor(away / 60))}:${two(away % 60)}`;
}

export const timeOf = (ns) => timeOfDay(new Date(ns / 1e6));

export const dayOf = (ns) => day(new Date(ns / 1e6));

/** Returns a time with its day and zone; nothing for a time that is not known. */
export const date = (ns) => (ns ? `${dayOf(ns)} ${timeOf(ns)} ${zone(ns)}` : "");

/** Returns a time of day, with the day where that is not the day of `now`. */
export const moment = (ns, now) => (dayOf(ns) === dayOf(now) ? timeOf(ns) : `${dayOf(ns)} ${timeOf(ns)}`);
