// What the page knows: the state that the server sent last, and the operator's choices.

export const store = {
  mode: "live",     // live: one acquisition; list: a folder of runs; run: one of them
  base: "/api",     // where its data is
  received: null,   // the newest snapshot, as the server sent it
  state: null,      // what is shown of it (zero.js), or the state of a run folder
  chosen: null,     // number of the chosen source
  event: 0,         // the chosen event of a run folder
  packet: null,     // number of the chosen packet in it
  decoded: null,    // the packet that is shown, decoded
  operator: false,  // this browser may control the run
};

/** Asks for a path below the base; null when there is no answer. */
export async function ask(path) {
  try {
    const answer = await fetch(store.base + path);
    const body = await answer.json();
    return { ok: answer.ok, body };
  } catch {
    return null;
  }
}

export const query = (pairs) => new URLSearchParams(pairs).toString();
