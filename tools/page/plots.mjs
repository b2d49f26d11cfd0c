// Tests of the plots over the whole run, on the page of a live run and of run folders.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PLOTS = `
[[plot]]
name = "amplitudes <b>"
kind = "histogram"
x = "amplitude + 1"
range = [1, 65537]
log = true
bins = 32
REFERENCE
[[plot]]
name = "by board"
kind = "profile"
x = "source_id"
y = "mean(amplitude)"
bins = 4
range = [0, 4]
[[plot]]
name = "sizes"
kind = "image"
x = "source_id"
y = "packet.bytes"
bins = 4
range = [0, 4]
y-bins = 8
y-range = [0, 2048]
[[plot]]
name = "highest"
kind = "trace"
x = "max(amplitude)"
[[plot]]
name = "board 2"
kind = "rate"
where = "source_id == 2"
`;

/** Writes an experiment of emulated boards with the plots. */
function experiment(folder, name, { packets, reference = "" }) {
  const plots = PLOTS.replace("REFERENCE", reference && `reference = "${reference}"`);
  writeFileSync(join(folder, name), `name = "plots"
[[source]]
name = "boards"
format = "counter"
[source.emulator]
sources = 4
rate = 200
packets = ${packets}
payload-bytes = 256
link = "udp"
in-flight-max = 64
${plots}`);
}

/** Returns for each canvas how many of its pixels are data: of images all, of charts the blue ones. */
const drawn = (page) => page.evaluate(() => {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--blue").trim();
  probe.fillRect(0, 0, 1, 1);
  const blue = probe.getImageData(0, 0, 1, 1).data;
  return [...document.querySelectorAll("#plots canvas")].map((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const isImage = canvas.className === "plot-image";
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      const isBlue = [0, 1, 2].every((part) => Math.abs(data[at + part] - blue[part]) < 40);
      if (data[at + 3] > 0 && (isImage || isBlue)) count += 1;
    }
    return count;
  });
});

const savedOf = (folder, run) => JSON.parse(readFileSync(join(folder, run, "plots.json"), "utf8"));
const words = (page) => page.locator("#plots").textContent();
const has = (page, part) => page.waitForFunction((wanted) => document.getElementById("plots").textContent.includes(wanted), part);

export function plotsTests({ open, start, state, show, serveRuns, folder }) {
  async function plotsOfALiveRun(browser) {
    experiment(folder, "first.toml", { packets: 300 });
    const first = start("run", "first.toml", "--folder", "plots-first");
    first.url.catch(() => {});
    assert.equal(await first.ended, 0, "the first run ends well");
    const { entries: wanted } = savedOf(folder, "plots-first").plots[0].values;
    experiment(folder, "second.toml", { packets: 0, reference: "plots-first" });
    const run = start("run", "second.toml", "--folder", "plots-second", "--serve", "127.0.0.1:8071");
    const page = await open(browser, await run.url);
    await state(page, "running");
    await page.locator("#plots-panel").waitFor();
    await has(page, "amplitudes <b>");
    await has(page, `Dashed: plots-first, ${wanted.toLocaleString("en")} entries, scaled to`);
    const entries = async () => Number((await words(page)).match(/([\d,]+) entries/)[1].replaceAll(",", ""));
    const before = await entries();
    await page.waitForFunction((old) => Number(document.getElementById("plots").textContent.match(/([\d,]+) entries/)[1].replaceAll(",", "")) > old, before);
    const pixels = await drawn(page);
    assert.equal(pixels.length, 5);
    assert(pixels.every((count) => count >= 4), `each plot is drawn: ${pixels}`);
    await page.check("#plots-log");
    await page.waitForFunction(() => document.querySelectorAll("#plots canvas").length === 5);
    await page.locator("#plots-panel").scrollIntoViewIfNeeded();
    await show(page, "plots", { fullPage: true });
    assert.deepEqual(page.problems, []);
    run.child.kill("SIGINT");
    await run.ended;
    const { plots, ended } = savedOf(folder, "plots-second");
    assert(ended && plots.every(({ packets }) => packets.seen === packets.used + packets.skipped));
  }

  async function plotsOfRunFolders(browser) {
    mkdirSync(join(folder, "runs"), { recursive: true });
    experiment(folder, "third.toml", { packets: 300 });
    for (const name of ["3000", "3001"]) {
      const run = start("run", "third.toml", "--folder", `runs/${name}`);
      run.url.catch(() => {});
      assert.equal(await run.ended, 0);
    }
    const none = start("demo", "--seconds", "1", "--folder", "runs/3002");
    none.url.catch(() => {});
    await none.ended;
    writeFileSync(join(folder, "runs/3001/plots.json"), '{"plots": [{"name": 7, "kind": "image", "data": {}}], "ended": true}');
    const server = await serveRuns(8072);
    const page = await open(browser, server.url);
    await page.click("#runs a:text-is('3000')");
    await has(page, `${savedOf(folder, "runs/3000").plots[0].values.entries.toLocaleString("en")} entries`);
    assert.equal((await drawn(page)).length, 5);
    await page.click("#all-runs");
    await page.click("#runs a:text-is('3001')");
    await page.locator("#plots-words", { hasText: "plots.json is damaged" }).waitFor();
    await page.click("#all-runs");
    await page.click("#runs a:text-is('3002')");
    await state(page, "finished");
    await page.locator("tr[data-event]").first().waitFor();
    assert(await page.locator("#plots-panel").isHidden(), "a run without plots has no panel");
    assert.deepEqual(page.problems, []);
    server.child.kill("SIGINT");
  }

  return { plotsOfALiveRun, plotsOfRunFolders };
}
