/** Whether an address belongs to a network whose identity headers are trusted. */

import type { TrustedNetwork } from "../../../config/options/plane-options.js";
import { splitText, wholeNumber } from "../../../core/platform.js";
import { type Cache, keep, newCache } from "../../lua/cache.js";
import { luaString } from "../../lua/library.js";
import { hexNumber, luaBit } from "../envoy-api.js";
import { worker } from "../state.js";

/** By address and port, which stay the same for a connection. */
const trust: Cache<boolean> = newCache();

export function isTrusted(address: string): boolean {
  const known = trust.values[address];
  if (known !== undefined) return known;
  const words = addressWords(ipOf(address));
  let trusted = false;
  for (const network of worker.options.trustedHops) if (isWithin(words, network)) trusted = true;
  return keep(trust, address, trusted);
}

/** Removes the port: `1.2.3.4:80` or `[::1]:80`. */
export function ipOf(address: string): string {
  return luaString.match(address, "^%[(.*)%]:%d+$") ?? luaString.match(address, "^([^:]*):%d+$") ?? address;
}

function isWithin(words: number[], network: TrustedNetwork): boolean {
  if (words.length !== network.words.length) return false;
  let bits = network.bits;
  for (let i = 0; i < words.length && bits > 0; i++) {
    const difference = luaBit.bxor(words[i]!, network.words[i]!);
    // Lua shifts modulo 32.
    if ((bits >= 32 ? difference : luaBit.rshift(difference, 32 - bits)) !== 0) return false;
    bits = bits - 32;
  }
  return true;
}

/** One word for IPv4, also in IPv6 notation; four for IPv6; none for anything else. */
function addressWords(ip: string): number[] {
  const plain = luaString.match(ip, "^::[fF][fF][fF][fF]:(%d+%.%d+%.%d+%.%d+)$") ?? ip;
  if (luaString.find(plain, ":", 1, true) === undefined) return wordsOfFour(plain);
  const groups = groupsOfSix(plain);
  const words: number[] = [];
  for (let i = 0; i + 1 < groups.length; i += 2) words.push(luaBit.bor(luaBit.lshift(groups[i]!, 16), groups[i + 1]!));
  return words;
}

function wordsOfFour(ip: string): number[] {
  let word = 0;
  const parts = splitText(ip, ".");
  for (const part of parts) word = luaBit.bor(luaBit.lshift(word, 8), wholeNumber(part));
  return parts.length === 4 ? [word] : [];
}

const GROUPS = 8;

function groupsOfSix(ip: string): number[] {
  const gap = luaString.find(ip, "::", 1, true);
  if (gap === undefined) return groupsOf(ip);
  const left = groupsOf(luaString.sub(ip, 1, gap - 1));
  const right = groupsOf(luaString.sub(ip, gap + 2, -1));
  const groups = left;
  while (groups.length + right.length < GROUPS) groups.push(0);
  for (const group of right) groups.push(group);
  return groups;
}

function groupsOf(text: string): number[] {
  const groups: number[] = [];
  if (text !== "") for (const part of splitText(text, ":")) groups.push(hexNumber(part, 16) ?? 0);
  return groups;
}
