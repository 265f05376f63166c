// What the keyboard does on every page.

const PLACES: Record<string, string> = {
  o: "/", c: "/channels", s: "/subscriptions", f: "/flows", d: "/deliveries", w: "/why", p: "/try", r: "/routers", u: "/runs",
};
let going = 0;

function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element?.closest?.("input, textarea, select, [contenteditable=true], .cm-editor, .react-flow");
}

function move(by: number): void {
  const links = [...document.querySelectorAll<HTMLElement>("tr[data-row] a[data-open]")];
  const now = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
  links[Math.min(links.length - 1, Math.max(0, now + by))]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    const form = (event.target as HTMLElement).closest("form");
    const button = form?.querySelector<HTMLElement>("button.main, button:not([type=button])");
    if (button) {
      event.preventDefault();
      button.click();
    }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const place = PLACES[event.key];
  if (going && performance.now() - going < 1500 && place) {
    const known = document.querySelector(`header a[href="${place}"]`);
    if (known) location.assign(place);
  } else if (event.key === "/") {
    const search = document.querySelector<HTMLInputElement>("input[type=search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "?") {
    document.querySelector<HTMLDialogElement>("#keys")?.showModal();
  } else if (event.key === "j" || event.key === "k") {
    move(event.key === "j" ? 1 : -1);
  } else if (event.key === " " && document.querySelector("[data-pause]")) {
    if ((event.target as HTMLElement).closest("a, button, summary")) return;
    event.preventDefault();
    document.querySelector<HTMLElement>("[data-pause]")?.click();
  } else if (event.key === "Escape") {
    document.querySelector<HTMLElement>("[data-close]")?.click();
  }
  going = event.key === "g" ? performance.now() : 0;
});
