// Parts of a page that change: the same page is asked for again, and its parts are put in place.

type Hook = (root: ParentNode) => void;
const hooks: Hook[] = [];

/** Call it for the page as it is now, and for every part that is put in place later. */
export function whenever(hook: Hook): void {
  hooks.push(hook);
  hook(document);
}

const running = new Map<string, AbortController>();

/** Ask for the page at this address; each part of the old one becomes that of the new one. */
export async function renew(address: string, names?: string[]): Promise<Document | null> {
  const key = names ? names.join() : "";
  running.get(key)?.abort();
  const own = new AbortController();
  running.set(key, own);
  const parts = [...document.querySelectorAll<HTMLElement>("[data-part]")].filter(
    (part) => !names || names.includes(part.dataset.part ?? ""),
  );
  for (const part of parts) part.classList.add("waiting");
  try {
    const answer = await fetch(address, { signal: own.signal, headers: { Accept: "text/html" } });
    if (answer.redirected && new URL(answer.url).pathname === "/login") location.reload();
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts) {
      const other = fresh.querySelector(`[data-part="${CSS.escape(part.dataset.part ?? "")}"]`);
      if (other) replace(part, document.importNode(other, true) as HTMLElement);
    }
    return fresh;
  } catch {
    return null; // given up for a later one, or the broker is away: what is there stays
  } finally {
    for (const part of parts) part.classList.remove("waiting");
    if (running.get(key) === own) running.delete(key);
  }
}

/** The focus stays where it is, as far as the new part has such a place. */
function replace(old: HTMLElement, fresh: HTMLElement): void {
  const focused = old.contains(document.activeElement) ? (document.activeElement as HTMLElement) : null;
  const path = focused ? (focused.id ? `#${CSS.escape(focused.id)}` : linkOf(focused)) : "";
  old.replaceWith(fresh);
  if (path) fresh.querySelector<HTMLElement>(path)?.focus();
  for (const hook of hooks) hook(fresh);
  document.dispatchEvent(new Event("tamis-part")); // the editor is a file of its own
}

function linkOf(element: HTMLElement): string {
  const to = element.getAttribute("href");
  return to ? `a[href="${CSS.escape(to)}"]` : "";
}
