// Tests of what the page says about the health of a run, with snapshots of a fake server (fake.mjs)
// and, where a program must die or end, with real runs.
import assert from "node:assert/strict";
import { BEGAN_NS, fake, healths, history, runState, snapshot } from "./fake.mjs";

const SIZES = { phone: { width: 390, height: 844 }, desk: { width: 1280, height: 900 }, wall: { width: 2560, height: 1440 } };
const second = 1e9;

const text = (page, id) => page.locator(`#${id}`).textContent();
const level = (page, wanted) => page.locator(`#health[data-level=${wanted}]`).waitFor();
const linked = (page, wanted) => page.locator(`body[data-connection=${wanted}]`).waitFor();
const icon = (page) => page.evaluate(() => document.querySelector("link[rel=icon]").href);

/** Waits up to a minute until something holds; the assertion behind it says what is missing. */
async function until(holds) {
  for (let tries = 0; !holds() && tries < 600; tries += 1) await new Promise((resolve) => setTimeout(resolve, 100));
}

/** Runs a test with a fake server, and ends it. */
async function withFake(repository, options, test) {
  const program = await fake(repository, options);
  try {
    await test(program);
  } finally {
    await program.close();
  }
}

/** Returns pairs of texts that lie on each other, texts that leave their tile, and empty panels. */
function untidy() {
  const wrong = [];
  const shown = (element) => element.checkVisibility?.({ checkOpacity: false, checkVisibilityCSS: true }) ?? true;
  const clipOf = (element) => {
    let clip = { left: 0, right: Infinity, top: 0, bottom: Infinity };
    for (let one = element; one; one = one.parentElement) {
      if (getComputedStyle(one).overflowX === "visible" || one === document.documentElement) continue;
      const box = one.getBoundingClientRect();
      clip = { left: Math.max(clip.left, box.left), right: Math.min(clip.right, box.right), top: Math.max(clip.top, box.top), bottom: Math.min(clip.bottom, box.bottom) };
    }
    return clip;
  };
  const texts = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, title, option, select") || !shown(parent)) continue;
    const clip = clipOf(parent);
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      // The box of a line of text is taller than its letters.
      const [left, right] = [Math.max(box.left, clip.left), Math.min(box.right, clip.right)];
      const [top, bottom] = [Math.max(box.top + box.height * 0.22, clip.top), Math.min(box.bottom - box.height * 0.22, clip.bottom)];
      if (right - left > 1 && bottom - top > 1) texts.push({ left, right, top, bottom, words: node.data.trim(), node, parent });
    }
  }
  texts.sort((a, b) => a.top - b.top);
  texts.forEach((a, index) => {
    for (const b of texts.slice(index + 1)) {
      if (b.top >= a.bottom - 0.5) break;
      if (a.node !== b.node && a.left < b.right - 0.5 && b.left < a.right - 0.5) wrong.push(`"${a.words}" lies on "${b.words}"`);
    }
    const box = a.parent.closest(".tile, .panel, #health, header")?.getBoundingClientRect();
    if (box && (a.right > box.right + 0.5 || a.left < box.left - 0.5)) wrong.push(`"${a.words}" leaves its box`);
  });
  for (const panel of document.querySelectorAll(".panel")) {
    if (!shown(panel)) continue;
    const content = [...panel.querySelectorAll("td, li, p, input, canvas, svg, .tile")].filter((one) => shown(one) && one.getBoundingClientRect().height > 0);
    if (!content.length) wrong.push(`the panel "${panel.getAttribute("aria-label")}" is empty`);
  }
  const boxes = [...document.querySelectorAll("#health, header, main > *, .tile, .alarm")].filter((one) => one.id !== "tiles" && shown(one));
  boxes.forEach((a, index) => boxes.slice(index + 1).forEach((b) => {
    const [one, other] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
    const apart = one.right <= other.left + 0.5 || other.right <= one.left + 0.5 || one.bottom <= other.top + 0.5 || other.bottom <= one.top + 0.5;
    if (!apart && !a.contains(b) && !b.contains(a)) wrong.push(`${a.id || a.className} lies on ${b.id || b.className}`);
  }));
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page scrolls sideways");
  return wrong;
}

/** Returns what has a colour other than grey and blue, in the page and in its curves. */
function coloured() {
  const found = [];
  const isColour = (red, green, blue) => Math.max(red, green, blue) - Math.min(red, green, blue) > 48 && blue < Math.max(red, green);
  for (const element of document.querySelectorAll("body, body *")) {
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const parts = ["color", "backgroundColor", "borderTopColor", "borderLeftColor", "fill", "stroke"];
    for (const part of parts) {
      const [red, green, blue, alpha = 1] = (style[part].match(/[\d.]+/g) ?? []).map(Number);
      if (blue !== undefined && alpha > 0 && isColour(red, green, blue)) found.push(`${part} of ${element.tagName} #${element.id} .${element.className?.baseVal ?? element.className}`);
    }
  }
  for (const canvas of document.querySelectorAll("#curves canvas")) {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] > 200 && isColour(data[at], data[at + 1], data[at + 2])) { found.push("a curve"); break; }
    }
  }
  return found;
}

const curvesDrawn = (page, panels) => page.waitForFunction((panels) => document.querySelectorAll("#curves canvas").length >= panels, panels);

export function healthTests({ open, start, state, show, repository, pictures }) {
  async function bannerSaysTheSentence(browser) {
    await withFake(repository, {}, async (program) => {
      const page = await open(browser, program.url);
      await level(page, "ok");
      assert.equal(await text(page, "health-sentence"), healths.ok.sentence);
      assert.equal(await page.title(), "running: shift 12 – Fluxline");
      const calm = await icon(page);
      assert.match(calm, /^data:image\/svg/);
      program.state = { ...snapshot("alarm"), tick: program.state.tick };
      await level(page, "alarm");
      assert.equal(await text(page, "health-sentence"), healths.alarm.sentence);
      assert.match(await text(page, "health-since"), /^since \d\d:\d\d:\d\d, for \d+ (s|min)/);
      assert.equal(await text(page, "health-advice"), healths.alarm.advice);
      assert.equal(await page.title(), "ALARM: shift 12 – Fluxline");
      assert.notEqual(await icon(page), calm, "the icon of the tab is another one");
      await page.locator("#alarms .alarm").nth(3).waitFor();
      assert.match(await page.locator("#alarms .alarm").first().textContent(), /board 2 is silent/, "the alarm comes first");
      assert.equal(await text(page, "alarms-words"), "2 active, 1 cleared, not acknowledged, 1 shelved");
      const row = page.locator("tr[data-source='2']");
      assert.match(await row.locator("td").nth(6).textContent(), /^\d+ s ago$/, "each source has the age of its last packet");
      program.state = { ...snapshot("warning"), tick: program.state.tick };
      await level(page, "warning");
      assert.equal(await page.title(), "warning: shift 12 – Fluxline");
      const { health, ...without } = snapshot("ok");
      program.state = { ...without, tick: program.state.tick };
      await level(page, "unknown");
      assert.equal(await page.locator("#alarms-panel").isVisible(), false, "no empty list");
      const unknown = { state: "unknown", sentence: "nobody has judged the health of this run yet", since_ns: 0, advice: "", alarms: [] };
      program.state = { ...snapshot("ok"), health: unknown, tick: program.state.tick };
      await page.waitForFunction((sentence) => document.getElementById("health-sentence").textContent === sentence, unknown.sentence);
      await level(page, "unknown");
      assert.equal(await text(page, "health-since"), "", "no time since 1970");
      assert.deepEqual(page.problems, []);
    });
  }

  async function colourOnlyWhenNotNormal(browser) {
    await withFake(repository, {}, async (program) => {
      for (const colorScheme of ["light", "dark"]) {
        program.state = snapshot("ok");
        const page = await open(browser, program.url, { colorScheme });
        await level(page, "ok");
        await curvesDrawn(page, 4);
        assert.deepEqual(await page.evaluate(coloured), [], colorScheme);
        program.state = snapshot("alarm");
        await level(page, "alarm");
        const found = await page.evaluate(coloured);
        assert(found.some((one) => one.includes("#health ")), "the banner of an alarm has a colour");
        await page.context().close();
      }
    });
  }

  async function acknowledgeSendsTheCommand(browser) {
    await withFake(repository, {}, async (program) => {
      program.state = snapshot("alarm");
      const page = await open(browser, program.url);
      const first = page.locator("#alarms .alarm").first();
      const button = await first.locator("button", { hasText: "Acknowledge" }).elementHandle();
      await page.waitForTimeout(500);
      assert(await button.evaluate((one) => one.isConnected), "snapshots do not replace a button under the pointer");
      await button.click();
      await first.locator("button", { hasText: "1 h" }).click();
      await page.locator("#alarms button", { hasText: "Unshelve" }).locator("visible=true").click();
      const name = "source-silent/board 2";
      await until(() => program.commands.length >= 3);
      assert.deepEqual(program.commands, [{ acknowledge: name }, { shelve: name, minutes: 60 }, { unshelve: "clock" }]);
      program.answer = { status: 409, body: { error: "the alarm has cleared meanwhile." } };
      await button.click();
      await page.locator("#problem", { hasText: "cleared meanwhile" }).waitFor();
      assert.deepEqual(page.problems, []);
    });
    await withFake(repository, { operator: false }, async (program) => {
      program.state = snapshot("alarm");
      const page = await open(browser, program.url);
      await page.locator("#alarms .alarm").nth(3).waitFor();
      assert.equal(await page.locator("#alarms button:visible").count(), 0, "a visitor has no buttons");
    });
  }

  async function aProgramThatIsKilledIsStale(browser) {
    const run = start("demo", "--seconds", "600", "--rate", "200", "--sources", "6", "--serve", "127.0.0.1:8074");
    const page = await open(browser, await run.url);
    await state(page, "running");
    await page.locator("[data-command=stop]:enabled").waitFor();
    run.child.kill("SIGKILL");
    await linked(page, "stale");
    await level(page, "stale");
    assert.equal(await page.locator("[data-command]:visible:enabled, #remark button:enabled").count(), 0, "the buttons are off");
    assert.match(await page.title(), /^no answer for \d+ s: /);
    const age = () => page.evaluate(() => Number(document.getElementById("health-since").textContent.match(/(\d+) s ago/)[1]));
    const before = await age();
    await page.waitForFunction((before) => Number(document.getElementById("health-since").textContent.match(/(\d+) s ago/)[1]) > before, before);
    assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector("main")).opacity), "0.4", "old numbers are dim");
    await run.ended;
  }

  async function aProgramThatHangsIsStale(browser) {
    await withFake(repository, {}, async (program) => {
      program.state = snapshot("alarm");
      const page = await open(browser, program.url);
      await level(page, "alarm");
      program.sends = false;
      await linked(page, "stale");
      assert.match(await text(page, "health-advice"), /^Last known: alarm: required source board 2/);
      assert.equal(await page.locator("#alarms button:visible:enabled").count(), 0);
      assert.match(await text(page, "elapsed"), /last seen \d\d:/, "an old time is not called now");
      await page.keyboard.press("p");
      assert.deepEqual(program.commands, [], "keys are off, too");
      program.sends = true;
      await level(page, "alarm");
      await page.locator("#alarms button:visible:enabled").first().waitFor();
      // The other end vanished without a word: after a while the page connects anew.
      program.sends = false;
      const [old] = program.streams;
      await page.waitForTimeout(2500);
      while (program.streams.has(old)) await page.waitForTimeout(200);
      program.sends = true;
      await level(page, "alarm");
    });
  }

  async function anEndIsNoLostConnection(browser) {
    const run = start("demo", "--seconds", "600", "--rate", "200", "--sources", "6", "--serve", "127.0.0.1:8075");
    const page = await open(browser, await run.url);
    await state(page, "running");
    run.child.kill("SIGINT");
    await run.ended;
    await linked(page, "ended");
    await level(page, "ended");
    await state(page, "stopped");
    await page.waitForTimeout(2500);
    assert.equal(await page.evaluate(() => document.body.dataset.connection), "ended", "silence after the end is no news");
    assert.match(await text(page, "health-sentence"), /^the run has ended/);
    assert.match(await page.title(), /^ended: /);
    assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector("main")).opacity), "1", "the last state stays readable");
    assert.equal(await page.locator("#problem:visible").count(), 0);
  }

  async function hostileSentences(browser) {
    const evil = "<img src=x onerror=window.hacked=1>";
    await withFake(repository, {}, async (program) => {
      const ill = snapshot("alarm");
      const alarms = ill.health.alarms.map((one) => ({ ...one, name: one.name + evil, sentence: evil, advice: evil, about: evil, severity: one.severity }));
      program.state = { ...ill, run: evil, state: "running", health: { ...ill.health, sentence: evil, advice: evil, alarms } };
      const page = await open(browser, program.url);
      await level(page, "alarm");
      await page.locator("#alarms .alarm").nth(3).waitFor();
      assert.equal(await text(page, "health-sentence"), evil);
      assert.equal(await page.title(), `ALARM: ${evil} – Fluxline`);
      await page.locator("#alarms button", { hasText: "Acknowledge" }).first().click();
      await until(() => program.commands.length > 0);
      assert.match(program.commands[0].acknowledge, /onerror/, "the name is sent as it is");
      program.state = { ...program.state, health: { state: evil, sentence: evil, since_ns: null, advice: null, alarms: [] } };
      await page.waitForFunction((evil) => document.getElementById("health-word").textContent === evil, evil);
      assert.equal(await page.evaluate(() => window.hacked), undefined);
      assert.equal(await page.locator("body img").count(), 0);
      assert.deepEqual(page.problems, []);
    });
  }

  async function slowControlValues(browser) {
    const evil = "<img src=x onerror=window.hacked=1>";
    await withFake(repository, {}, async (program) => {
      const calm = snapshot("ok");
      program.state = calm;
      const page = await open(browser, program.url);
      await level(page, "ok");
      assert.equal(await page.locator("#slow-panel").isVisible(), false, "no empty panel");
      const value = (more) => ({ value: null, text: null, unit: null, time_ns: calm.at_ns, arrival_ns: calm.at_ns - 3e9, ...more });
      const values = { "hv{slot=3}/voltage": value({ value: 1500.5, unit: "V" }), [`magnet${evil}/state`]: value({ text: evil }) };
      program.state = { ...calm, slow_control: { listens: "127.0.0.1:8094", names: 3, counters: {}, values } };
      await page.locator("#slow tr").nth(1).waitFor();
      assert.equal(await page.locator("#slow tr").first().innerText(), "hv{slot=3}/voltage\t1500.5\tV\t3 s");
      assert.equal(await text(page, "slow-words"), "the first 2 of 3 names");
      assert.equal(await page.locator("#slow td").nth(5).textContent(), evil);
      assert.equal(await page.evaluate(() => window.hacked), undefined);
      assert.deepEqual(page.problems, []);
    });
  }

  async function soundOncePerAlarm(browser) {
    await withFake(repository, {}, async (program) => {
      const context = await browser.newContext();
      await context.addInitScript(() => {
        window.tones = 0;
        const Real = window.AudioContext;
        window.AudioContext = class extends Real {
          createOscillator() { window.tones += 1; return super.createOscillator(); }
        };
      });
      const page = await context.newPage();
      await page.goto(program.url);
      await level(page, "ok");
      const ring = async (kind, tones, why) => {
        program.state = { ...snapshot(kind), tick: program.state.tick };
        await level(page, kind);
        await page.waitForTimeout(400);
        assert.equal(await page.evaluate(() => window.tones), tones, why);
      };
      await ring("alarm", 0, "no sound before somebody turned it on");
      await page.click("#sound");
      await page.waitForFunction(() => document.getElementById("sound").textContent === "Sound on");
      await ring("alarm", 0, "the alarm is not new");
      await ring("warning", 0, "a warning is silent");
      await ring("alarm", 2, "two tones for an alarm that came again");
      await ring("alarm", 2, "and not again while it lasts");
      await page.reload();
      await level(page, "alarm");
      assert.match(await text(page, "sound"), /^Sound(: click once| on)$/, "the choice is kept");
      await context.close();
    });
  }

  async function countsFromZero(browser) {
    await withFake(repository, {}, async (program) => {
      program.state = snapshot("alarm");
      const page = await open(browser, program.url);
      const lost = () => page.locator(".tile", { hasText: /^lost/ }).locator("b").textContent();
      await page.locator("tr[data-source='5'] td.bad").first().waitFor();
      assert.equal(await lost(), "1,234");
      await page.click("#zero");
      await page.locator("#zero-since", { hasText: /^counts since \d\d:\d\d:\d\d$/ }).waitFor();
      await page.waitForFunction(() => document.querySelector("tr[data-source='5']").cells[3].textContent === "0");
      assert.equal(await lost(), "0");
      const later = snapshot("alarm", 312_556);
      later.flow.lost += 3;
      later.sources[5].lost += 3;
      program.state = { ...later, tick: program.state.tick };
      await page.waitForFunction(() => document.querySelector("tr[data-source='5']").cells[3].textContent === "3");
      assert.equal(await page.locator("tr[data-source='0'] td").nth(2).textContent(), "100");
      assert.deepEqual(program.commands, [], "the run keeps its counts");
      await page.click("#zero-reset");
      await page.waitForFunction(() => document.querySelector("tr[data-source='5']").cells[3].textContent === "1,237");
      // Another run of the program begins to count anew.
      await page.click("#zero");
      await page.locator("#zero-shown").waitFor();
      program.state = { ...snapshot("ok", 5), tick: 3 };
      await page.locator("#zero-shown").waitFor({ state: "hidden" });
    });
  }

  async function timesNameTheirZone(browser) {
    await withFake(repository, {}, async (program) => {
      const page = await open(browser, program.url, { timezoneId: "Asia/Kolkata", locale: "en-US" });
      await level(page, "ok");
      assert.match(await text(page, "elapsed"), /^shot 4711, began 2025-11-29 20:15:00 UTC\+05:30, now 20:\d\d:\d\d, elapsed 0:\d\d:\d\d$/);
    });
  }

  async function curvesOfAFinishedRun(browser) {
    const whole = history(3600, second, true, { tick_ns: second, began_ns: BEGAN_NS });
    const gap = structuredClone(whole);
    gap.series.packets.greatest[5] = null;
    await withFake(repository, { runs: { "0042": { state: runState(), history: gap }, "0041": { state: runState({ health: undefined, state: "killed", sentence: null }) } } }, async (program) => {
      const page = await open(browser, `${program.url}#/0042`);
      await curvesDrawn(page, 5);
      assert.deepEqual((await page.locator("#curves h3").allTextContents()).slice(0, 4), ["Losses", "Packets", "Events", "Recorded"]);
      assert.equal(await text(page, "health-sentence"), runState().sentence);
      assert.match(await text(page, "health-since"), /^from 2025-11-29 .* to 2025-11-29 /);
      assert.equal(await page.locator("#alarms .alarm").count(), 2);
      assert.equal(await page.locator("#alarms button:visible").count(), 0, "a finished run is not acknowledged");
      const asked = page.waitForRequest((request) => /history\?from=\d+&to=\d+/.test(request.url()));
      await page.locator("#curves .u-over").first().scrollIntoViewIfNeeded();
      const box = await page.locator("#curves .u-over").first().boundingBox();
      await page.mouse.move(box.x + box.width * 0.3, box.y + 30);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.6, box.y + 30, { steps: 4 });
      await page.mouse.up();
      const query = new URL((await asked).url()).searchParams;
      assert(Number(query.get("from")) > 800 && Number(query.get("to")) < 2500, String(query));
      await page.locator("#curves-wider").click();
      await page.goto(`${program.url}#/0041`);
      await page.locator("#history-words", { hasText: "no history" }).waitFor();
      await level(page, "alarm");
      assert.equal(await page.locator("#curves canvas").count(), 0, "no empty curves");
      assert.deepEqual(page.problems, []);
    });
  }

  /** Brings a page into a state, and waits until it shows it. */
  async function bring(program, page, kind) {
    await curvesDrawn(page, 4);
    if (["ok", "warning", "alarm"].includes(kind)) program.state = { ...snapshot(kind), tick: program.state.tick };
    if (kind === "long") program.state = { ...snapshot("alarm", 987_654_321_987), tick: program.state.tick };
    if (kind === "stale") program.sends = false;
    if (kind === "ended") program.state = { ...snapshot("ok"), state: "stopped", commands: [] };
    await level(page, kind === "long" ? "alarm" : kind);
    await page.locator("#delays td").first().waitFor();
    // Drawings of shapes follow the digits within half a second.
    await page.waitForTimeout(700);
  }

  async function nothingOverlapsInAnySize(browser) {
    const kinds = ["ok", "warning", "alarm", "long", "stale", "ended"];
    // Colours move nothing, so the dark ones are for pictures.
    const schemes = pictures ? ["light", "dark"] : ["light"];
    for (const [size, viewport] of Object.entries(SIZES)) {
      for (const colorScheme of schemes) {
        for (const kind of kinds) {
          await withFake(repository, {}, async (program) => {
            const page = await open(browser, program.url, { viewport, colorScheme });
            await bring(program, page, kind);
            assert.deepEqual(await page.evaluate(untidy), [], `${kind} on a ${size}`);
            assert.deepEqual(page.problems, []);
            await show(page, `health-${kind}-${size}-${colorScheme}`);
            await page.context().close();
          });
        }
      }
      await withFake(repository, finished(), async (program) => {
        const page = await open(browser, `${program.url}#/0042`, { viewport });
        await curvesDrawn(page, 5);
        await page.locator("#delays td").first().waitFor();
        await page.waitForTimeout(600);
        const wrong = (await page.evaluate(untidy)).filter((one) => !/panel "(Events|Packet)"/.test(one));
        assert.deepEqual(wrong, [], `a finished run on a ${size}`);
        await show(page, `health-run-${size}`);
        await page.context().close();
      });
    }
  }

  const finished = () => ({ runs: { "0042": { state: runState(), history: history(3600, second, true, { tick_ns: second, began_ns: BEGAN_NS }) } } });

  /** The pictures of docs/live-page.md. */
  async function picturesOfTheDocs(browser) {
    const take = (name, kind, more, clip) => withFake(repository, {}, async (program) => {
      const page = await open(browser, program.url, more);
      await bring(program, page, kind);
      if (kind === "stale") await page.waitForTimeout(10_000);
      await show(page, name, clip ? { clip: { x: 0, y: 0, ...clip } } : {});
    });
    await take("live-page", "alarm", { viewport: { width: 1280, height: 800 } });
    await take("live-page-stale", "stale", { viewport: SIZES.desk, deviceScaleFactor: 0.8 }, { width: 1280, height: 250 });
    await take("live-page-ended", "ended", { viewport: SIZES.desk, deviceScaleFactor: 0.8 }, { width: 1280, height: 250 });
    await take("live-page-phone", "alarm", { viewport: { width: 390, height: 760 }, colorScheme: "dark" });
    await take("live-page-wall", "warning", { viewport: SIZES.wall, deviceScaleFactor: 0.4, colorScheme: "dark" }, { width: 2560, height: 800 });
    await withFake(repository, finished(), async (program) => {
      const page = await open(browser, `${program.url}#/0042`, { viewport: { width: 1280, height: 800 } });
      await curvesDrawn(page, 5);
      await page.waitForTimeout(700);
      await show(page, "run-curves");
    });
  }

  return {
    ...(pictures ? { picturesOfTheDocs } : {}), bannerSaysTheSentence, colourOnlyWhenNotNormal, acknowledgeSendsTheCommand, aProgramThatIsKilledIsStale,
    aProgramThatHangsIsStale, anEndIsNoLostConnection, hostileSentences, slowControlValues, soundOncePerAlarm, countsFromZero,
    timesNameTheirZone, curvesOfAFinishedRun, nothingOverlapsInAnySize,
  };
}
