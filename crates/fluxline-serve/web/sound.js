// A sound for each new alarm, where the operator turned it on: browsers allow none before a click.
import { at, put } from "./dom.js";

const key = "fluxline-sound";
let on = false;
let context = null;
let known = null;  // alarms that rang, or that were there when the page began

function words() {
  if (!on) return "Sound off";
  return context?.state === "running" ? "Sound on" : "Sound: click once";
}

function show() {
  put(at("sound"), words());
  at("sound").setAttribute("aria-pressed", String(on));
}

/** Starts the sound; a browser refuses it until a key or a button was pressed. */
function wake() {
  if (!on || context?.state === "running") return;
  context ??= new AudioContext();
  context.onstatechange = show;
  context.resume().then(show, show);
}

/** Plays two tones of a quarter of a second each. */
export function beep() {
  if (!on || context?.state !== "running") return;
  const gain = context.createGain();
  gain.gain.value = 0.2;
  gain.connect(context.destination);
  [880, 660].forEach((frequency, part) => {
    const tone = context.createOscillator();
    tone.frequency.value = frequency;
    tone.connect(gain);
    tone.start(context.currentTime + part * 0.25);
    tone.stop(context.currentTime + (part + 1) * 0.25);
  });
}

/** Rings once where one of these alarms is new. */
export function ringFor(alarms) {
  const fresh = known && [...alarms].some((one) => !known.has(one));
  known = alarms;
  if (fresh) beep();
}

export function listenSound() {
  // A browser that keeps nothing, as in a private window, starts without sound.
  try { on = localStorage.getItem(key) === "on"; } catch { on = false; }
  at("sound").addEventListener("click", () => {
    const waits = on && context?.state !== "running";
    on = waits || !on;
    try { localStorage.setItem(key, on ? "on" : "off"); } catch { /* it holds for this page alone */ }
    wake();
    show();
  });
  for (const gesture of ["pointerdown", "keydown"]) {
    addEventListener(gesture, (event) => { if (event.target !== at("sound")) wake(); });
  }
  show();
}
