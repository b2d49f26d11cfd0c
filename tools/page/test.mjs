// Tests the page in a browser, with real runs: node test.mjs PROGRAM REPOSITORY [PICTURES]
//
// PROGRAM is the `fluxline` to test, REPOSITORY the folder of the sources. ONLY=name,name runs some
// of the tests. With PICTURES, a folder, screenshots are written there. The
// browser is Debian's chromium. Everything is on loopback; all processes end with this one.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { healthTests } from "./health.mjs";
import { plotsTests } from "./plots.mjs";

const [program, repository, pictures] = process.argv.slice(2);
assert(repository, "usage: node test.mjs PROGRAM REPOSITORY [PICTURES]");
const folder = mkdtempSync(join(tmpdir(), "fluxline-page-"));
const children = new Set();
const patience = 60_000;

/** Starts the program; resolves with its page's address. */
function start(...arguments_) {
  const child = spawn(program, arguments_, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  children.add(child);
  let said = "";
  const url = new Promise((resolve, reject) => {
    child.stderr.on("data", (bytes) => {
      said += bytes;
      const found = said.match(/(?:page|map)\s+(http:\S+)/);
      if (found) resolve(found[1]);
    });
    child.on("exit", (status) => { children.delete(child); reject(new Error(`ended with ${status}: ${said}`)); });
    setTimeout(() => reject(new Error(`no page: ${said}`)), patience).unref();
  });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  return { child, url, ended };
}

const demo = (...more) => start("demo", "--seconds", "600", "--rate", "200", "--sources", "6", "--drop", "0.002", ...more);

async function open(browser, url, more = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 1350 }, ...more });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => { if (/Content Security Policy/.test(message.text())) page.problems.push(message.text()); });
  await page.goto(url);
  return page;
}

const state = (page, wanted) => page.waitForFunction((text) => document.getElementById("state").textContent === text, wanted, { timeout: patience });

async function fromStartToStop(browser) {
  const run = demo("--serve", "127.0.0.1:8061", "--armed");
  const url = await run.url;
  const operator = await open(browser, url);
  const visitor = await open(browser, url.split("#")[0], { colorScheme: "dark" });
  await state(operator, "armed");
  assert.equal(new URL(operator.url()).hash, "", "the token leaves the address");
  await state(visitor, "armed");
  assert.equal(await visitor.locator("[data-command]:visible").count(), 0, "a visitor has no buttons");
  await operator.click("[data-command=start]");
  await Promise.all([state(operator, "running"), state(visitor, "running")]);
  await operator.fill("#remark input", "beam on");
  await operator.press("#remark input", "Enter");
  await visitor.locator("#notes .said", { hasText: "beam on" }).waitFor();
  await operator.locator("tr[data-source]").nth(2).click();
  await operator.locator("#fields td").first().waitFor();
  await operator.keyboard.press("p");
  await Promise.all([state(operator, "paused"), state(visitor, "paused")]);
  await operator.keyboard.press("r");
  await state(visitor, "running");
  await operator.waitForTimeout(4000);
  await show(operator, "live-run");
  await show(visitor, "live-run-dark");
  const phone = await open(browser, url.split("#")[0], { viewport: { width: 390, height: 844 } });
  await state(phone, "running");
  assert(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "a phone need not scroll sideways");
  await show(phone, "live-run-phone");
  await operator.click("[data-command=stop]");
  await state(operator, "running");
  await operator.click("[data-command=stop]");
  const status = await run.ended;
  assert.equal(status, 0, "the run ends well");
  await operator.locator("#health-sentence", { hasText: "the run has ended" }).waitFor();
  for (const page of [operator, visitor, phone]) assert.deepEqual(page.problems, []);
}

async function restart(browser) {
  const first = demo("--serve", "127.0.0.1:8062");
  const page = await open(browser, await first.url);
  await state(page, "running");
  first.child.kill("SIGKILL");
  await state(page, "no connection");
  const second = demo("--serve", "127.0.0.1:8062");
  await second.url;
  await state(page, "running");
  await page.locator("#login").waitFor();
  assert.equal(await page.locator("[data-command]:visible").count(), 0, "the old session does not control the new run");
  const old = await page.evaluate(async () => (await fetch("/api/command", { method: "POST", body: '{"command":"pause"}' })).status);
  assert.equal(old, 401);
  second.child.kill("SIGINT");
  await second.ended;
}

async function aSourceThatDies(browser) {
  const listen = "127.0.0.1:8066";
  const run = start("run", "--udp", listen, "--format", "counter", "--serve", "127.0.0.1:8063");
  const page = await open(browser, await run.url);
  const board = () => start("emulate", "counter", "--to", `udp://${listen}`, "--rate", "50", "--seconds", "600");
  const dying = board();
  dying.url.catch(() => {});
  await page.locator("tr[data-source]").first().waitFor();
  dying.child.kill("SIGKILL");
  await page.locator("tr[data-source] td.bad", { hasText: "silent for" }).first().waitFor();
  run.child.kill("SIGINT");
  await run.ended;
}

async function hostilePage(browser) {
  const run = demo("--serve", "127.0.0.1:8064");
  const url = await run.url;
  const operator = await open(browser, url);
  await state(operator, "running");
  await operator.locator("[data-command=pause]").waitFor();
  const target = url.split("#")[0];
  const evil = createServer((_, answer) => {
    answer.setHeader("content-type", "text/html");
    answer.end(`<iframe id=f src="${target}"></iframe><form id=g method=post action="${target}api/command"><input name='{"command":"stop"}'></form>`);
  }).listen(8065, "127.0.0.1");
  // The same browser, with the operator's cookie.
  const page = await operator.context().newPage();
  await page.goto("http://127.0.0.1:8065/");
  const said = await page.evaluate(async (to) => {
    const body = '{"command":"stop"}';
    const tries = [{}, { credentials: "include" }, { mode: "no-cors", credentials: "include" }];
    const results = [];
    for (const more of tries) results.push(await fetch(`${to}api/command`, { method: "POST", body, ...more }).then((answer) => answer.type + answer.status, () => "blocked"));
    return [...results, await fetch(`${to}api/state`).then(() => "read", () => "blocked")];
  }, target);
  assert(!said.includes("read") && !said.some((one) => one.includes("200")), String(said));
  await page.evaluate(() => document.getElementById("g").submit());
  await page.waitForTimeout(500);
  assert.equal(await operator.locator("#state").textContent(), "running", "the run goes on");
  evil.close();
  run.child.kill("SIGINT");
  await run.ended;
}

async function show(page, name, more = {}) {
  if (!pictures) return;
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: join(pictures, `${name}.png`), ...more });
}

/** Waits until a program ends by itself. */
const ended = async (run) => { run.url.catch(() => {}); return run.ended; };

/** Starts `fluxline serve`, which prints its address on standard output. */
function serveRuns(port) {
  const child = spawn(program, ["serve", "runs", "--listen", `127.0.0.1:${port}`], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  child.on("exit", () => children.delete(child));
  return new Promise((resolve) => child.stdout.on("data", (bytes) => {
    const found = String(bytes).match(/page\s+(http:\S+)/);
    if (found) resolve({ child, url: found[1] });
  }));
}

async function runFolders(browser) {
  await ended(start("demo", "--seconds", "3", "--rate", "200", "--sources", "6", "--drop", "0.01", "--folder", "runs/2000"));
  const killed = demo("--serve", "127.0.0.1:8067", "--folder", "runs/2001");
  await killed.url;
  await new Promise((resolve) => setTimeout(resolve, 2500));
  killed.child.kill("SIGKILL");
  await killed.ended;
  const running = demo("--serve", "127.0.0.1:8068", "--folder", "runs/2002");
  await running.url;
  const server = await serveRuns(8069);
  const page = await open(browser, server.url);
  await page.locator("#runs td", { hasText: "killed" }).first().waitFor();
  await page.locator("#runs td", { hasText: "running" }).first().waitFor();
  await page.fill("#mark [name=run]", "2000");
  await page.fill("#mark [name=text]", "<b>beam</b> was back");
  await page.click("#mark [value=comment]");
  await page.locator("#runs td", { hasText: "<b>beam</b> was back" }).first().waitFor();
  const visitor = await open(browser, server.url.split("#")[0]);
  await visitor.locator("#runs td", { hasText: "<b>beam</b> was back" }).first().waitFor();
  assert(!(await visitor.locator("#mark").isVisible()), "a visitor has no form");
  await visitor.close();
  await show(page, "runs");
  await page.click("#runs a:text-is('2000')");
  await state(page, "finished");
  await page.locator("tr[data-event]").first().waitFor();
  assert((await page.locator("#fields td").first().textContent()).length > 0, "the first packet is decoded");
  await page.locator("#only").check();
  await page.waitForFunction(() => [...document.querySelectorAll("tr[data-event]")].every((row) => row.cells[2].textContent === "incomplete"));
  await page.locator("#only").uncheck();
  await page.locator("tr[data-event='3']").click();
  await page.locator("#packets button").nth(1).click();
  await page.click("#trace-show");
  await page.waitForFunction(() => /\d samples,/.test(document.getElementById("trace-words").textContent));
  const words = () => page.locator("#trace-words").textContent();
  const whole = await words();
  await page.locator("#trace .u-over").scrollIntoViewIfNeeded();
  const box = await page.locator("#trace .u-over").boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction((before) => document.getElementById("trace-words").textContent !== before, whole);
  await page.click("#trace-wider");
  await show(page, "run-folder", { fullPage: true });
  await page.click("#all-runs");
  await page.click("#runs a:text-is('2002')");
  await page.waitForFunction(() => document.getElementById("live-page").href === "http://127.0.0.1:8068/");
  const link = await page.locator("#live-page").getAttribute("href");
  assert(!link.includes("#"), "the list has no token of a live run");
  server.child.kill("SIGINT");
  await page.locator("#problem", { hasText: "no connection" }).waitFor();
  assert.deepEqual(page.problems, []);
  running.child.kill("SIGINT");
  await running.ended;
}

async function hostileNames(browser) {
  const name = "<img src=x onerror=window.hacked=1>";
  writeFileSync(join(folder, "hostile.toml"), `name = "${name}"\n[[source]]\nname = "boards"\nformat = "counter"\n[source.emulator]\nsources = 3\nrate = 100.0\npackets = 0\n[events]\nbuild = "key"\nrequire = 3\n`);
  const run = start("run", "hostile.toml", "--serve", "127.0.0.1:8070");
  const page = await open(browser, await run.url);
  await state(page, "running");
  await page.fill("#remark input", `note ${name}`);
  await page.press("#remark input", "Enter");
  await page.locator("#notes .said", { hasText: "onerror" }).waitFor();
  assert.equal(await page.locator("#run").textContent(), name, "a name is text");
  // Names that packets and files bring are drawn by the same functions.
  await page.evaluate(async (name) => {
    const { store } = await import("/store.js");
    const { drawSources } = await import("/sources.js");
    const { drawNetwork } = await import("/network.js");
    for (const source of store.state.sources) source.label = name;
    for (const input of store.state.inputs) input.name = name;
    drawSources();
    drawNetwork();
  }, name);
  assert.equal(await page.evaluate(() => window.hacked), undefined, "no name becomes a program");
  assert.equal(await page.locator("main img").count(), 0);
  run.child.kill("SIGINT");
  await run.ended;
}

/** 60 sources: the browser's main thread and its frames while the page changes ten times a second. */
async function sixtySources(browser) {
  const run = start("demo", "--seconds", "600", "--rate", "100", "--sources", "60", "--serve", "127.0.0.1:8071");
  const page = await open(browser, await run.url);
  await page.waitForFunction(() => document.querySelectorAll("tr[data-source]").length === 60, null, { timeout: patience });
  await page.locator("tr[data-source]").nth(5).click();
  await page.locator("#signal").waitFor();
  const measured = await page.evaluate(() => new Promise((resolve) => {
    const seconds = 8;
    const [tasks, frames] = [[], []];
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ entryTypes: ["longtask"] });
    let last = performance.now();
    const end = last + seconds * 1000;
    const frame = (now) => {
      frames.push(now - last);
      last = now;
      if (now < end) requestAnimationFrame(frame);
      else resolve({ tasks, frames: frames.sort((a, b) => a - b), seconds });
    };
    requestAnimationFrame(frame);
  }));
  const { tasks, frames, seconds } = measured;
  const at = (share) => frames[Math.floor(share * (frames.length - 1))].toFixed(0);
  const busy = tasks.reduce((sum, task) => sum + task, 0) / seconds / 1000;
  console.log(`       60 sources: ${frames.length} frames in ${seconds} s, frame time median ${at(0.5)} ms, 99 % ${at(0.99)} ms, most ${at(1)} ms; `
    + `${tasks.length} tasks above 50 ms, the longest ${Math.max(0, ...tasks).toFixed(0)} ms, ${(100 * busy).toFixed(1)} % of the time`);
  // The printed numbers are the measurement, and no verdict: on a busy host they grow.
  assert(frames.length > 0, "the page is drawn");
  assert.deepEqual(page.problems, []);
  await show(page, "live-page-60");
  run.child.kill("SIGINT");
  await run.ended;
}

async function simulation(browser) {
  const scenario = join(repository, "scenarios/atoll-faults.toml");
  const run = start("topo", scenario, "--steps", "6", "--serve", "127.0.0.1:8072");
  const page = await open(browser, await run.url);
  const slider = page.locator(".slider input");
  await slider.waitFor();
  const label = () => page.locator(".slider output").textContent();
  const last = await label();
  await slider.focus();
  await page.keyboard.press("ArrowLeft");
  assert.notEqual(await label(), last, "the slider changes the time");
  assert.deepEqual(page.problems, []);
  run.child.kill("SIGINT");
  await run.ended;
}

/** A page that stays open for hours: every snapshot replaces the one before. */
async function wallScreen(browser) {
  const run = demo("--serve", "127.0.0.1:8068");
  const url = (await run.url).split("#")[0];
  const context = await browser.newContext({ viewport: { width: 1400, height: 1350 } });
  await context.addInitScript(() => {
    const Real = window.EventSource;
    window.EventSource = class extends Real {
      constructor(...given) { super(...given); window.theStream = this; }
    };
  });
  const page = await context.newPage();
  await page.goto(url);
  await state(page, "running");
  const tools = await context.newCDPSession(page);
  await tools.send("HeapProfiler.enable");
  await tools.send("Performance.enable");
  const used = async () => {
    await tools.send("HeapProfiler.collectGarbage");
    const { metrics } = await tools.send("Performance.getMetrics");
    const of = (name) => metrics.find((one) => one.name === name).value;
    return { heap: of("JSHeapUsedSize"), nodes: of("Nodes"), listeners: of("JSEventListeners") };
  };
  // Snapshots of the run with other numbers, as fast as the page takes them.
  const play = (count) => page.evaluate(async (count) => {
    const first = await new Promise((resolve) => window.theStream.addEventListener("message", (message) => resolve(JSON.parse(message.data)), { once: true }));
    for (let tick = 0; tick < count; tick += 1) {
      const data = JSON.stringify({ ...first, tick: first.tick + tick });
      window.theStream.dispatchEvent(new MessageEvent("message", { data }));
      if (tick % 50 === 0) await new Promise(requestAnimationFrame);
    }
  }, count);
  await play(2000);
  const before = await used();
  await play(36_000); // an hour of ten ticks a second
  const after = await used();
  assert(after.heap < before.heap * 1.5 + 4e6, `the heap grew from ${before.heap} to ${after.heap} bytes`);
  assert(after.nodes < before.nodes * 1.2 + 500, `the nodes grew from ${before.nodes} to ${after.nodes}`);
  assert(after.listeners < before.listeners * 1.2 + 100, `the listeners grew from ${before.listeners} to ${after.listeners}`);
  await state(page, "running");
  run.child.kill("SIGINT");
  await run.ended;
}

const all = { fromStartToStop, wallScreen, restart, aSourceThatDies, hostilePage, runFolders, hostileNames, sixtySources, simulation, ...healthTests({ open, start, state, show, repository, pictures }), ...plotsTests({ open, start, state, show, serveRuns, folder }) };
const wanted = process.env.ONLY?.split(",");
const tests = Object.fromEntries(Object.entries(all).filter(([name]) => !wanted || wanted.includes(name)));
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
let failed = 0;
try {
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test(browser);
      console.log(`ok     ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}: ${error.stack}`);
    }
    for (const child of children) child.kill("SIGKILL");
  }
} finally {
  await browser.close();
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
