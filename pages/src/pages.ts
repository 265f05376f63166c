// What every page does beyond plain HTML. All of it works without this file as well, but for what is live.

import "./keys";
import { renew, whenever } from "./parts";
import { onFrame } from "./socket";
import "./stream";

// --- forms whose answer is shown while one types ---------------------------------------

function addressOf(form: HTMLFormElement): string {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (name !== "csrf" && typeof value === "string" && value !== "") fields.append(name, value);
  return `${form.dataset.live || location.pathname}?${fields}`;
}

let timer = 0;
function soon(form: HTMLFormElement): void {
  clearTimeout(timer);
  timer = window.setTimeout(async () => {
    const address = addressOf(form);
    const names = (form.dataset.parts ?? "result").split(" ");
    if (!(await renew(address, names))) return;
    if (address.length < 4000 && !form.dataset.live) history.replaceState(null, "", address);
    form.dispatchEvent(new CustomEvent("renewed"));
  }, 250);
}
document.addEventListener("input", (event) => {
  const form = (event.target as HTMLElement).closest<HTMLFormElement>("form[data-live]");
  if (form) soon(form);
});
document.addEventListener("submit", (event) => {
  const form = event.target as HTMLFormElement;
  if (form.matches("form[data-live]:not([method=post])")) {
    event.preventDefault();
    soon(form);
  }
});

// --- parts that are asked for again from time to time, while somebody looks --------------

whenever((root) => {
  const own = (root as HTMLElement).dataset?.refresh ? [root as HTMLElement] : [...root.querySelectorAll<HTMLElement>("[data-refresh]")];
  for (const part of own) {
    const again = async (): Promise<void> => {
      if (!part.isConnected) return;
      const busy = document.hidden || part.contains(document.activeElement) || part.querySelector("details[open]");
      if (busy || !(await renew(location.href, [part.dataset.part ?? ""]))) setTimeout(again, Number(part.dataset.refresh));
    };
    setTimeout(again, Number(part.dataset.refresh));
  }
});

// --- figures ---------------------------------------------------------------------------

function count(value: number): string {
  return value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

let before: { at: number; messages: number; matches: number; deliveries: number } | null = null;
onFrame((frame) => {
  if (frame.type !== "state") return;
  const word = document.querySelector("[data-state]");
  if (word) word.textContent = frame.state === "ok" ? "running" : "refuses messages";
  document.querySelector(".dot")?.classList.toggle("refusing", frame.state !== "ok");
  const now = { at: performance.now(), messages: frame.messages, matches: frame.matches, deliveries: frame.deliveries };
  const subscriptions = document.querySelector('[data-figure="subscriptions"]');
  if (subscriptions) subscriptions.textContent = count(frame.subscriptions);
  if (before && now.at > before.at + 200) {
    const seconds = (now.at - before.at) / 1000;
    for (const name of ["messages", "matches", "deliveries"] as const) {
      const rate = Math.max(0, (now[name] - before[name]) / seconds);
      const figure = document.querySelector(`[data-figure="${name}"]`);
      if (figure) figure.textContent = count(Math.round(rate * 10) / 10);
      const bar = document.querySelector("[data-rate]");
      if (bar && name === "messages") bar.textContent = count(Math.round(rate * 10) / 10);
    }
  }
  before = now;
});

// --- ages ------------------------------------------------------------------------------

setInterval(() => {
  for (const time of document.querySelectorAll<HTMLElement>("time[data-micros]")) {
    const micros = Number(time.dataset.micros);
    const seconds = Math.max(0, Date.now() / 1000 - micros / 1e6);
    const [length, unit] = seconds >= 86_400 ? [86_400, "d"] : seconds >= 3_600 ? [3_600, "h"] : seconds >= 60 ? [60, "min"] : [1, "s"];
    time.textContent = `${Math.floor(seconds / length)} ${unit} ago`;
    time.title ||= new Date(micros / 1000).toISOString();
  }
}, 1000);
