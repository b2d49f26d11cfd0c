// The list of runs in a folder.
import { complain } from "./control.js";
import { at, make, put, rows } from "./dom.js";
import { clock, count, date, si } from "./numbers.js";

function cells(run) {
  return [run.id, run.name ?? "", run.state, date(run.began_ns), clock(run.seconds), si(run.bytes, "B"),
    run.recorded === null ? "" : count(run.recorded), run.lost === null ? "" : count(run.lost),
    run.fault ?? run.sentence ?? ""];
}

export async function drawRuns() {
  if (document.hidden) return;
  const answer = await fetch("/api/runs").then((answer) => answer.json(), () => null);
  if (!answer || answer.error) return complain(answer?.error ?? "no connection to the program; trying again.");
  complain("");
  put(at("folder"), answer.folder);
  put(at("state"), `${answer.runs.length} runs`);
  const wanted = at("runs-filter").value.toLowerCase();
  const shown = answer.runs.filter((run) => `${run.id} ${run.name} ${run.state}`.toLowerCase().includes(wanted));
  const lines = rows(at("runs").tBodies[0], shown.length, 9, (cell) => cell >= 4 && cell <= 7);
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
