// Run control: commands, notes, the login.
import { at } from "./dom.js";
import { store } from "./store.js";

let sure = 0;  // time until which a second press of `stop` is meant

export function complain(text) {
  at("problem").textContent = text;
  at("problem").hidden = !text;
}

export async function post(path, body) {
  let answer;
  try {
    answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    complain("no connection to the program; nothing was changed.");
    return false;
  }
  const said = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  if (answer.status === 401) store.operator = false;
  complain(answer.ok ? "" : said.error);
  return answer.ok;
}

export async function command(name) {
  const button = document.querySelector(`[data-command=${name}]`);
  if (!button || button.hidden || button.disabled) return;
  if (name === "stop" && Date.now() > sure) {
    sure = Date.now() + 4000;
    button.classList.add("sure");
    button.textContent = "Stop: sure?";
    setTimeout(() => { button.classList.remove("sure"); button.textContent = "Stop"; }, 4000);
    return;
  }
  sure = 0;
  await post("/api/command", { command: name });
}

/** Exchanges the token behind `#` for a cookie, and removes it from the address. */
export async function logIn() {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, "", location.pathname);
    store.operator = await post("/api/session", { token });
    return;
  }
  try {
    const answer = await fetch("/api/session");
    store.operator = answer.ok && (await answer.json()).operator;
  } catch {
    store.operator = false;
  }
}

export function listenControl() {
  for (const button of document.querySelectorAll("[data-command]")) {
    button.addEventListener("click", () => command(button.dataset.command));
  }
  at("remark").addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = event.target.elements.text;
    if (await post("/api/command", { remark: field.value })) field.value = "";
  });
}
