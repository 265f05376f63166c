// The selector editor: completion of attributes, operators and values, and mistakes under a wavy line.
// It stands over a textarea, which keeps the text for the form.

import { autocompletion, closeBrackets, completionKeymap, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { history, historyKeymap, standardKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const WORDS = ["AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "CONTAINS", "STARTS", "ENDS", "WITH", "WITHIN", "MATCHES", "ESCAPE", "TRUE", "FALSE", "ILIKE", "DIV", "DATE", "TIMESTAMP", "ANY", "ALL", "SIZE"];
const KNOWN = new Set(WORDS);

const selectors = StreamLanguage.define({
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^'(?:[^']|'')*'?/)) return "string";
    if (stream.match(/^`[^`]*`?/)) return "variableName";
    if (stream.match(/^\d[\w.]*(?:[eE][+-]?\d+)?/)) return "number";
    const word = stream.match(/^[\p{L}_$][\p{L}\p{N}_$.]*/u) as RegExpMatchArray | null;
    if (word) return KNOWN.has(word[0].toUpperCase()) ? "keyword" : "variableName";
    stream.next();
    return "operator";
  },
});

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "var(--main)", fontWeight: "600" },
    { tag: tags.string, color: "var(--good)" },
    { tag: tags.number, color: "var(--unknown)" },
  ]),
);

const look = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--card)" },
  ".cm-content": { font: "13px/20px var(--mono)", caretColor: "var(--ink)", minHeight: "64px", padding: "6px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-placeholder": { color: "var(--soft)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--input)", borderRadius: "4px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { font: "13px/20px var(--mono)" },
  ".cm-tooltip-autocomplete ul li": { padding: "2px 8px", minHeight: "24px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--main)", color: "var(--on-main)" },
  ".cm-completionDetail": { fontStyle: "normal", color: "var(--soft)" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-diagnostic": { color: "var(--ink)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-lintPoint-error::after": { borderBottomColor: "var(--bad)" },
});

const TEXTS = ["string", "chararray"];
const COMPARE = ["=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN", "IS NULL", "IS NOT NULL"];
const TEXT_OPS = ["=", "<>", "IN", "LIKE", "CONTAINS", "STARTS WITH", "ENDS WITH", "IS NULL", "IS NOT NULL"];

function operators(kind: string): Completion[] {
  const known = TEXTS.includes(kind) ? TEXT_OPS : kind === "boolean" || kind === "bool" ? ["=", "IS NULL", "IS NOT NULL"] : kind ? COMPARE : [...new Set([...COMPARE, ...TEXT_OPS])];
  return known.map((label, place) => ({ label, type: "keyword", boost: -place }));
}

function literal(value: unknown): string {
  if (typeof value === "string") return `'${value.replaceAll("'", "''")}'`;
  return typeof value === "boolean" ? String(value).toUpperCase() : String(value);
}

/** What may come next, by what comes before the cursor. */
function completing(attributes: Record<string, string>, values: string) {
  const names: Completion[] = Object.entries(attributes).map(([label, detail]) => ({ label, detail, type: "variable", boost: 2 }));
  const joints: Completion[] = ["AND", "OR", "NOT"].map((label) => ({ label, type: "keyword" }));
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const before = context.state.sliceDoc(Math.max(0, context.pos - 500), context.pos);
    const value = /([\p{L}_$][\p{L}\p{N}_$.]*)\s*(?:=|<>|<=|>=|<|>|IN\s*\((?:[^()]*,)?|CONTAINS|STARTS WITH|ENDS WITH)\s*('[^']*|[\w.]*)$/iu.exec(before);
    if (value) {
      const typed = value[2].replace(/^'/, "");
      const answer = await fetch(`${values}${encodeURIComponent(value[1])}?q=${encodeURIComponent(typed)}`).catch(() => null);
      if (!answer?.ok) return null;
      const found = ((await answer.json()) as { values: { value: unknown; count: number }[] }).values;
      const options = found.map((one) => ({ label: literal(one.value), detail: `${one.count} of the last 2,000`, type: "constant" }));
      const closed = value[2].startsWith("'") && context.state.sliceDoc(context.pos, context.pos + 1) === "'";
      return { from: context.pos - value[2].length, to: context.pos + Number(closed), options, filter: false };
    }
    const word = context.matchBefore(/[\p{L}_$][\p{L}\p{N}_$.]*/u);
    const from = word?.from ?? context.pos;
    const ahead = before.slice(0, before.length - (context.pos - from)).trimEnd();
    const last = /([\p{L}_$][\p{L}\p{N}_$.]*)$/u.exec(ahead)?.[1] ?? "";
    if (!word && !context.explicit) return null;
    if (last && !KNOWN.has(last.toUpperCase())) return { from, options: operators(attributes[last] ?? "") };
    if (/['\d)]$|\b(?:NULL|TRUE|FALSE)$/i.test(ahead)) return { from, options: joints };
    return { from, options: [...names, { label: "NOT", type: "keyword" }] };
  };
}

const editors = new Map<HTMLTextAreaElement, EditorView>();

function begin(box: HTMLElement): void {
  const area = box.querySelector<HTMLTextAreaElement>("textarea");
  if (!area || editors.has(area)) return;
  const label = document.querySelector<HTMLLabelElement>(`label[for="${area.id}"]`);
  const described: Record<string, string> = { "aria-label": label?.textContent ?? "Selector", spellcheck: "false" };
  const by = area.getAttribute("aria-describedby");
  if (by) described["aria-describedby"] = by;
  const invalid = new Compartment();
  const view = new EditorView({
    state: EditorState.create({
      doc: area.value,
      extensions: [
        EditorView.cspNonce.of(box.dataset.nonce ?? ""),
        history(), selectors, colours, look, closeBrackets(), EditorView.lineWrapping,
        placeholder(area.placeholder),
        EditorView.contentAttributes.of(described), invalid.of([]),
        autocompletion({ override: [completing(JSON.parse(box.dataset.attributes ?? "{}"), box.dataset.values ?? "")], icons: false }),
        keymap.of([...completionKeymap, ...historyKeymap, ...standardKeymap]),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          area.value = update.state.doc.toString();
          area.dispatchEvent(new Event("input", { bubbles: true }));
        }),
      ],
    }),
  });
  area.hidden = true;
  box.append(view.dom);
  editors.set(area, view);
  label?.addEventListener("click", () => view.focus());
  mark();
}

/** The mistake that the server told, where it is in the text. */
function mark(): void {
  const told = document.querySelector<HTMLElement>("[data-at]");
  for (const view of editors.values()) {
    const length = view.state.doc.length;
    const at = Math.min(Number(told?.dataset.at ?? 0), length);
    const rest = /^(?:[\p{L}\p{N}_$.]+|'[^']*'?|\S)/u.exec(view.state.sliceDoc(at))?.[0].length ?? 0;
    const message = told?.querySelector("strong")?.textContent ?? "";
    const found = told ? [{ from: at === length ? Math.max(0, at - 1) : at, to: at + rest, severity: "error" as const, message }] : [];
    view.dispatch(setDiagnostics(view.state, found));
  }
}

for (const box of document.querySelectorAll<HTMLElement>("[data-editor]")) begin(box);
document.addEventListener("tamis-part", mark);
