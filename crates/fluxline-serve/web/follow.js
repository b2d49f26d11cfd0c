// The stream of snapshots, and how long ago the newest came.
import { store } from "./store.js";

// A connection whose other end vanished stays open for ever: it is opened anew after this time [ms].
const RENEW_MS = 10_000;

let stream = null;
let closed = false;
let heard = instant();
let opened = instant();

/** The steady clock stands still while a computer sleeps, the other one may be set: both are asked. */
function instant() {
  return { steady: performance.now(), wall: Date.now() };
}

const since = (before) => Math.max(performance.now() - before.steady, Date.now() - before.wall);

/** Returns the age of the newest snapshot [ms], and whether the connection broke since then. */
export const heardOf = () => ({ silentMs: since(heard), closed });

/**
 * Follows the snapshots. `changed` is called after each one, and when the connection breaks;
 * `back` when it comes again, perhaps to another run of the program.
 */
export function follow(changed, back) {
  const mine = new EventSource("/api/events");
  stream = mine;
  opened = instant();
  stream.onmessage = (message) => {
    const again = closed || since(heard) > RENEW_MS;
    store.received = JSON.parse(message.data);
    closed = false;
    heard = instant();
    changed();
    if (again) back();
  };
  // The browser connects again by itself, also after a restart of the program.
  stream.onerror = () => {
    closed = true;
    changed();
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (stream === mine) follow(changed, back); }, 1000);
  };
}

/** Opens the stream anew where it has been silent for long. */
export function renew(changed, back) {
  if (since(heard) < RENEW_MS || since(opened) < RENEW_MS) return;
  stream.close();
  follow(changed, back);
}
