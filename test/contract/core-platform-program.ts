/** The platform commands of the conformance program: parsing and formatting where JavaScript and Lua differ. */
import {
  isIdentifier,
  joinValues,
  splitText,
  storedNumber,
  wholeNumber,
  wholeNumbers,
  wholeText,
} from "../../src/core/platform.js";
import { shardOf } from "../../src/core/shard.js";
import { exact, numberAt, textAt, yesNo } from "./core-text.js";

function restOf(words: string[], from: number): string {
  const rest: string[] = [];
  for (let i = from; i < words.length; i++) rest.push(words[i]!);
  return joinValues(rest, " ", 0);
}

/** Parses all texts but the first as whole numbers, both one by one and together. */
function wholesCommand(words: string[]): string {
  const texts = splitText(restOf(words, 1), ";");
  const names: string[] = [];
  for (let i = 1; i < texts.length; i++) names.push(wholeText(i));
  const together = wholeNumbers(texts, 1, names);
  let result = wholeText(names.length);
  for (let i = 1; i < texts.length; i++) {
    result = `${result} ${exact(together[wholeText(i)]!)}/${exact(wholeNumber(texts[i]!))}`;
  }
  return result;
}

/** Parses a number as a script stores it in Redis, or an invalid text. */
function storedCommand(words: string[]): string {
  return `${exact(storedNumber(restOf(words, 1), -0.5))} ${exact(storedNumber(false, 0.25))}`;
}

/** Splits the text at the separator. The result is the number of parts and the parts. */
function splitCommand(words: string[]): string {
  const parts = splitText(restOf(words, 2), textAt(words, 1));
  return `${wholeText(parts.length)} ${joinValues(parts, " | ", 0)}`;
}

/** Joins the words to one text. Words that are numbers are joined as numbers, the others as texts. */
function joinCommand(words: string[]): string {
  const values: (string | number)[] = [];
  let largest = 0;
  for (const word of words) {
    const value = storedNumber(word, -0.5);
    if (value === -0.5) {
      values.push(word);
    } else {
      // Turns −0 into 0: scripts never reply with −0, and Lua would print its sign.
      values.push(value + 0);
      largest = Math.max(largest, Math.abs(value));
    }
  }
  return joinValues(values, "|", largest);
}

/** Runs a platform command. The result is empty if the command is not a platform command. */
export function platformCommand(words: string[]): string {
  const command = words[0];
  if (command === "wholes") return wholesCommand(words);
  if (command === "stored") return storedCommand(words);
  if (command === "join") return joinCommand(words);
  if (command === "split") return splitCommand(words);
  if (command === "whole-text") return wholeText(numberAt(words, 1));
  if (command === "shard") return wholeText(shardOf(textAt(words, 1), numberAt(words, 2)));
  if (command !== "platform") return "";
  // Untrusted text: everything after the name of the command, including spaces.
  const text = restOf(words, 1);
  return `${exact(wholeNumber(text))} ${yesNo(isIdentifier(text))}`;
}
