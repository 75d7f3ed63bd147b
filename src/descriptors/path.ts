/** The path of a request in the form in which limits compare it, so that another spelling does not avoid a limit. */
import { hexDigit } from "../core/address.js";
import { characterOf, codeAt, cutText, findText, splitText } from "../core/platform.js";

const PERCENT = 37;

/** Decodes printable characters except / ? # %, merges slashes, and resolves dot segments. Without the query. */
export function normalPath(path: string): string {
  const query = findText(path, "?", 0);
  const own = query < 0 ? path : cutText(path, 0, query);
  const isPlain = findText(own, "%", 0) < 0 && findText(own, "//", 0) < 0 && findText(own, "/.", 0) < 0;
  return isPlain ? own : resolved(findText(own, "%", 0) < 0 ? own : decoded(own));
}

function decoded(path: string): string {
  let text = "";
  let at = 0;
  let next = findText(path, "%", 0);
  while (next >= 0) {
    text = text + cutText(path, at, next);
    const code = encodedCode(path, next);
    at = code < 0 ? next + 1 : next + 3;
    text = text + (code < 0 ? "%" : characterOf(code));
    next = findText(path, "%", at);
  }
  return text + cutText(path, at, path.length);
}

/** The code of the encoded character at `at`; negative if it stays encoded. */
function encodedCode(path: string, at: number): number {
  if (at + 3 > path.length) return -1;
  const high = hexDigit(codeAt(path, at + 1));
  const low = hexDigit(codeAt(path, at + 2));
  const code = high < 0 || low < 0 ? -1 : high * 16 + low;
  const stays = code <= 32 || code >= 127 || code === 47 || code === 63 || code === 35 || code === PERCENT;
  return stays ? -1 : code;
}

function resolved(path: string): string {
  const kept: string[] = [];
  let count = 0;
  const segments = splitText(path, "/");
  for (const segment of segments) {
    if (segment === "..") count = Math.max(count - 1, 0);
    else if (segment !== "" && segment !== ".") {
      kept[count] = segment;
      count++;
    }
  }
  let text = "";
  for (let i = 0; i < count; i++) text = `${text}/${kept[i]!}`;
  const last = segments[segments.length - 1]!;
  return text === "" || last === "" || last === "." || last === ".." ? `${text}/` : text;
}
