/** The platform part of the conformance program: what becomes of texts and numbers where JavaScript and Lua differ. */
import {
  isIdentifier,
  joinValues,
  splitText,
  storedNumber,
  wholeNumber,
  wholeNumbers,
  wholeText,
} from "../../src/core/platform.js";
import { exact, numberAt, textAt, yesNo } from "./core-text.js";

function restOf(words: string[], from: number): string {
  const rest: string[] = [];
  for (let i = from; i < words.length; i++) rest.push(words[i]!);
  return joinValues(rest, " ", 0);
}

/** Whole numbers, read alone and all at once but for the first. */
function wholesCommand(words: string[]): string {
  const texts = splitText(restOf(words, 1), ";");
  const together = wholeNumbers(texts, 1, texts.length - 1);
  let result = wholeText(together.length);
  for (let i = 1; i < texts.length; i++) {
    result = `${result} ${exact(together[i - 1]!)}/${exact(wholeNumber(texts[i]!))}`;
  }
  return result;
}

/** A number that a script keeps in Redis, or a text that is none. */
function storedCommand(words: string[]): string {
  return `${exact(storedNumber(restOf(words, 1), -0.5))} ${exact(storedNumber(false, 0.25))}`;
}

/** The parts of the text after the separator, and how many. */
function splitCommand(words: string[]): string {
  const parts = splitText(restOf(words, 2), textAt(words, 1));
  return `${wholeText(parts.length)} ${joinValues(parts, " | ", 0)}`;
}

/** Words as one text again: numbers as numbers, the others as texts. */
function joinCommand(words: string[]): string {
  const values: (string | number)[] = [];
  let largest = 0;
  for (const word of words) {
    const value = storedNumber(word, -0.5);
    if (value === -0.5) {
      values.push(word);
    } else {
      // Not −0: scripts reply with none, and Lua would write its sign.
      values.push(value + 0);
      largest = Math.max(largest, Math.abs(value));
    }
  }
  return joinValues(values, "|", largest);
}

/** Carries out a command about the platform; empty for a command that is none. */
export function platformCommand(words: string[]): string {
  const command = words[0];
  if (command === "wholes") return wholesCommand(words);
  if (command === "stored") return storedCommand(words);
  if (command === "join") return joinCommand(words);
  if (command === "split") return splitCommand(words);
  if (command === "whole-text") return wholeText(numberAt(words, 1));
  if (command !== "platform") return "";
  // A text that came from outside: all after the command's name, spaces included.
  const text = restOf(words, 1);
  return `${exact(wholeNumber(text))} ${yesNo(isIdentifier(text))}`;
}
