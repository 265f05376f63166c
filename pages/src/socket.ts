// The one WebSocket of a tab. It closes while the tab is hidden, and comes back.

export interface Row {
  sequence: number;
  time: number;
  subject: string;
  attributes: Record<string, unknown> | null;
  hit: boolean;
}
export type Frame =
  | { type: "state"; state: string; messages: number; matches: number; deliveries: number; subscriptions: number }
  | { type: "watching"; number: number }
  | { type: "rows"; number: number; count: number; rows: Row[] }
  | { type: "error"; number: number; error: string };

const takers: ((frame: Frame) => void)[] = [];
let socket: WebSocket | null = null;
export interface Watch {
  channel: string | undefined;
  selector: string;
  subjects: string;
  misses: boolean;
  after: number;
  number: number;
}
let wanted: Watch | null = null;
let pause = 500;
let since = Date.now();

export function onFrame(take: (frame: Frame) => void): void {
  takers.push(take);
}

/** What this page watches; null: nothing. */
export function watch(request: Watch | null): void {
  if (!wanted && !request) return;
  wanted = request;
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(wanted ?? {}));
}

function lost(away: boolean): void {
  const note = document.querySelector<HTMLElement>("#lost");
  if (!note) return;
  note.hidden = !away;
  document.querySelector(".dot")?.classList.toggle("away", away);
  const text = note.querySelector("[data-lost]");
  if (text) text.textContent = `${Math.round((Date.now() - since) / 1000)} s ago`;
}

function connect(): void {
  if (socket || document.hidden) return;
  const own = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live`);
  socket = own;
  own.onopen = () => {
    pause = 500;
    if (wanted) own.send(JSON.stringify(wanted));
  };
  own.onmessage = (event) => {
    const frame = JSON.parse(event.data as string) as Frame;
    since = Date.now();
    lost(false);
    if (wanted && frame.type === "rows" && frame.rows.length) wanted.after = frame.rows[frame.rows.length - 1].sequence;
    for (const take of takers) take(frame);
  };
  own.onclose = (event) => {
    if (socket === own) socket = null;
    if (event.code === 1008) location.reload(); // logged out, or a right is gone: the page says so
    if (document.hidden || leaving) return;
    lost(true);
    setTimeout(connect, pause);
    pause = Math.min(2 * pause, 10_000);
  };
}

let leaving = false;
addEventListener("pagehide", () => {
  leaving = true;
  socket?.close();
});
addEventListener("pageshow", () => {
  leaving = false;
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return connect();
  const own = socket;
  socket = null;
  own?.close();
});
if (document.body.hasAttribute("data-live-socket")) connect();
