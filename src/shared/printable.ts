/** Sanitises untrusted text for a log line: escapes control characters and limits the length. */

const MAX_LENGTH = 200;

export function printable(text: string): string {
  const cut = text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this removes
  return cut.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, escaped);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
