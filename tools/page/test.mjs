// Tests the live page in a browser, with a real run each: node test.mjs PROGRAM [PICTURES]
//
// PROGRAM is the `fluxline` to test. With PICTURES, a folder, screenshots are written there. The
// browser is Debian's chromium. Everything is on loopback; all processes end with this one.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [program, pictures] = process.argv.slice(2);
assert(program, "usage: node test.mjs PROGRAM [PICTURES]");
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
      const found = said.match(/page\s+(http:\S+)/);
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
  await show(operator, "live-page");
  await show(visitor, "live-page-dark");
  const phone = await open(browser, url.split("#")[0], { viewport: { width: 390, height: 844 } });
  await state(phone, "running");
  assert(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "a phone need not scroll sideways");
  await show(phone, "live-page-phone");
  await operator.click("[data-command=stop]");
  await state(operator, "running");
  await operator.click("[data-command=stop]");
  const status = await run.ended;
  assert.equal(status, 0, "the run ends well");
  await operator.locator("#problem", { hasText: "the run has ended" }).waitFor();
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

async function show(page, name) {
  if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) });
}

const tests = { fromStartToStop, restart, aSourceThatDies, hostilePage };
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
