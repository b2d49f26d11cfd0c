// The list of runs in a folder, and their tags and comments.
import { complain } from "./control.js";
import { at, make, put, rows } from "./dom.js";
import { clock, count, date, si } from "./numbers.js";
import { store } from "./store.js";

function cells(run) {
  return [run.id, run.name ?? "", run.state, date(run.began_ns), clock(run.seconds), si(run.bytes, "B"),
    run.recorded === null ? "" : count(run.recorded), run.lost === null ? "" : count(run.lost),
    run.fault ?? run.sentence ?? "", [...run.tags, run.comment].filter(Boolean).join(" ")];
}

/** Takes a tag or a comment for the run whose number is in the form. */
export function listenMarks() {
  at("mark").hidden = !store.operator;
  at("mark").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { run, text, user } = event.target.elements;
    const answer = await fetch(`/api/runs/${encodeURIComponent(run.value.trim())}/marks`, {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ [event.submitter.value]: text.value, user: user.value }),
    }).then((answer) => answer.json(), () => ({ error: "no connection to the program; nothing was changed." }));
    put(at("mark-answer"), answer.error ?? "");
    if (!answer.error) text.value = "";
    await drawRuns();
  });
}

export async function drawRuns() {
  if (document.hidden) return;
  const answer = await fetch("/api/runs").then((answer) => answer.json(), () => null);
  if (!answer || answer.error) return complain(answer?.error ?? "no connection to the program; trying again.");
  complain("");
  put(at("folder"), answer.folder);
  put(at("state"), `${answer.runs.length} runs`);
  const wanted = at("runs-filter").value.toLowerCase();
  const shown = answer.runs.filter((run) => `${run.id} ${run.name} ${run.state} ${run.tags.join(" ")} ${run.comment}`.toLowerCase().includes(wanted));
  const lines = rows(at("runs").tBodies[0], shown.length, 10, (cell) => cell >= 4 && cell <= 7);
  shown.forEach((run, index) => {
    const row = lines[index];
    cells(run).slice(1).forEach((text, cell) => put(row.cells[cell + 1], text));
    const link = row.cells[0].firstChild ?? row.cells[0].appendChild(make("a"));
    link.href = `#/${encodeURIComponent(run.id)}`;
    put(link, run.id);
    row.cells[2].className = run.state === "finished" || run.state === "running" ? "" : "bad";
    row.cells[7].classList.toggle("bad", run.lost > 0);
    row.cells[8].classList.toggle("bad", Boolean(run.fault));
  });
}
