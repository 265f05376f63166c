// A live list: newest first, 200 rows, four frames a second; opening a row pauses it.

import { whenever } from "./parts";
import { onFrame, watch, type Row } from "./socket";

const MOST = 200;
let number = 0;
let list: HTMLElement | null = null;
let paused = false;
let passed = 0; // while it is paused
let total = 0;

function text(tag: string, content: string, kind = ""): HTMLElement {
  const made = document.createElement(tag);
  made.textContent = content;
  if (kind) made.className = kind;
  return made;
}

function cell(content: Node, kind = ""): HTMLElement {
  const made = document.createElement("td");
  made.append(content);
  if (kind) made.className = kind;
  return made;
}

function attributes(row: Row, names: string[]): HTMLElement {
  const box = text("span", "", "attributes");
  if (!row.attributes) {
    box.append("a large message: open it");
    return box;
  }
  const keys = Object.keys(row.attributes);
  keys.sort((a, b) => Number(names.includes(b)) - Number(names.includes(a)));
  for (const key of keys) {
    const one = text("span", "", names.includes(key) ? "named" : "");
    const value = JSON.stringify(row.attributes[key]);
    one.append(text("span", key, "soft"), ` ${value.length > 80 ? `${value.slice(0, 79)}…` : value}`);
    box.append(one, " ");
  }
  return box;
}

function shown(row: Row, own: HTMLElement): HTMLElement {
  const made = document.createElement("tr");
  made.dataset.row = "";
  made.dataset.sequence = String(row.sequence);
  if ("misses" in own.dataset) {
    const sign = text("span", row.hit ? "✓" : "✗", row.hit ? "good" : "soft");
    sign.append(text("span", row.hit ? " matches" : " does not match", "hidden"));
    made.append(cell(sign, "mark-cell"));
  }
  const link = text("a", String(row.sequence)) as HTMLAnchorElement;
  link.href = `/channels/${encodeURIComponent(own.dataset.channel ?? "")}/messages/${row.sequence}`;
  link.dataset.open = "";
  const time = text("time", "now");
  time.dataset.micros = String(row.time);
  const names = JSON.parse(own.dataset.names ?? "[]") as string[];
  made.append(cell(link), cell(time, "low soft"), cell(text("code", row.subject), "low"), cell(attributes(row, names)));
  return made;
}

function told(): void {
  const summary = document.querySelector("[data-summary]");
  if (summary)
    summary.textContent = paused ? `Paused. ${passed.toLocaleString("en")} more since.` : `${total.toLocaleString("en")} since this page opened.`;
}

function setPaused(now: boolean): void {
  paused = now;
  passed = now ? passed : 0;
  const button = document.querySelector("[data-pause]");
  if (button) button.textContent = paused ? "Resume" : "Pause";
  told();
}

onFrame((frame) => {
  if (!list || !("number" in frame) || frame.number !== number) return;
  if (frame.type === "error") {
    const summary = document.querySelector("[data-summary]");
    if (summary) summary.textContent = `Nothing live: ${frame.error}`;
  } else if (frame.type === "rows") {
    total += frame.count;
    if (paused) passed += frame.count;
    else {
      const body = list.querySelector("tbody");
      const known = new Set([...(body?.children ?? [])].slice(0, MOST).map((row) => (row as HTMLElement).dataset.sequence));
      const rows = frame.rows.filter((row) => !known.has(String(row.sequence))).reverse();
      body?.prepend(...rows.map((row) => shown(row, list as HTMLElement)));
      while (body && body.children.length > MOST) body.lastElementChild?.remove();
      if (rows.length) list.closest("section")?.querySelector("[data-none]")?.remove();
    }
    told();
  }
});

whenever((root) => {
  const found = (root as Element).querySelector<HTMLElement>("[data-channel]") ?? ((root as HTMLElement).dataset?.channel ? (root as HTMLElement) : null);
  if (!found) return;
  list = found;
  total = 0;
  number += 1;
  const { channel, selector = "", subjects = ">" } = found.dataset;
  const bad = "bad" in found.dataset;
  watch(bad ? null : { channel, selector, subjects, misses: "misses" in found.dataset, after: Number(found.dataset.after ?? 0), number });
  setPaused(paused);
  const summary = document.querySelector("[data-summary]");
  if (bad && summary) summary.textContent = "Nothing is live until the selector is right.";
});

document.addEventListener("click", async (event) => {
  const target = event.target as HTMLElement;
  if (target.closest("[data-pause]")) return setPaused(!paused);
  if (target.closest("[data-close]")) return close();
  const link = target.closest<HTMLAnchorElement>("[data-channel] a[data-open]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  setPaused(true);
  const row = link.closest("tr");
  if (row?.nextElementSibling?.hasAttribute("data-opened")) return close();
  close();
  const answer = await fetch(link.href);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const inside = page.querySelector("[data-message]");
  if (!inside || !row) return location.assign(link.href);
  const opened = document.createElement("tr");
  opened.dataset.opened = "";
  const box = document.createElement("td");
  box.colSpan = row.children.length;
  box.append(document.importNode(inside, true));
  const button = text("button", "Close");
  button.dataset.close = "";
  box.append(button);
  opened.append(box);
  row.after(opened);
  opener = link;
});

let opener: HTMLElement | null = null;
function close(): void {
  const opened = document.querySelector("[data-opened]");
  if (!opened) return;
  opened.remove();
  opener?.focus();
}
