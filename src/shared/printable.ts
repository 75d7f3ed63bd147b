/** Text from outside, made fit for a log line: no control characters, no more than a line of it. */

const LONGEST = 200;

export function printable(text: string): string {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return cut.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, escaped);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
