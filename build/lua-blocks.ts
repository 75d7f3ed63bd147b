/**
 * Puts the modules of a flat Lua program into functions of their own. Lua allows 200 locals in a function, and each function
 * of a flat program is one; those inside another count only there. What is used behind it is handed out, in locals that
 * nobody assigns again, so that LuaJIT takes them for constants as before.
 */

interface Part {
  file: string;
  text: string;
}

/** LuaJIT allows 60 names from outside in a function. */
const MOST_FROM_OUTSIDE = 58;
/** Fewer are not worth a function. */
const LEAST_HIDDEN = 2;

/** `groupOf` names those that share one, where they follow each other. The last module stays: it has what the program is for. */
export function setApart(code: string, groupOf: (file: string) => string = (file) => file): string {
  const parts = grouped(partsOf(code), groupOf);
  return parts.map((part, i) => (i === parts.length - 1 ? part.text : wrapped(part, parts, i))).join("");
}

function wrapped({ file, text }: Part, parts: Part[], index: number): string {
  if (file === "") return text;
  const declared = declaredIn(text);
  const used = wordsOf(textOf(parts.slice(index + 1)));
  const names = declared.filter((name) => used.has(name));
  const words = wordsOf(text);
  const fromOutside = declaredIn(textOf(parts.slice(0, index))).filter((name) => words.has(name));
  const worth = declared.length - names.length >= LEAST_HIDDEN && names.length > 0;
  if (!worth || fromOutside.length > MOST_FROM_OUTSIDE) return text;
  const list = names.join(", ");
  return `local ${list} = (function()\n\n${text.trimEnd()}\n\nreturn ${list}\n\nend)()\n\n`;
}

const textOf = (parts: Part[]) => parts.map(({ text }) => text).join("");
const wordsOf = (text: string) => new Set(text.replace(/--.*$/gm, "").match(/[A-Za-z_][A-Za-z0-9_]*/g));

function declaredIn(text: string): string[] {
  return [...text.matchAll(/^local (?:function )?([A-Za-z_][A-Za-z0-9_, ]*)/gm)].flatMap(([, names]) =>
    names!.split(",").map((name) => name.trim()),
  );
}

/** Each module is headed by the name of its file. */
function partsOf(code: string): Part[] {
  return code
    .split(/^(?=-- src\/\S+\.ts$)/m)
    .map((text) => ({ file: /^-- (src\/\S+\.ts)$/m.exec(text)?.[1] ?? "", text }));
}

function grouped(parts: Part[], groupOf: (file: string) => string): Part[] {
  const groups: Part[] = [];
  for (const { file, text } of parts) {
    const name = file === "" ? "" : groupOf(file);
    const last = groups.at(-1);
    if (last !== undefined && last.file === name) last.text += text;
    else groups.push({ file: name, text });
  }
  return groups;
}
