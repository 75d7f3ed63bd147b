/** IP addresses as text: parsing, networks, and the client's address in X-Forwarded-For. */
import { characterOf, codeAt, cutText, findText, splitText, wholeNumber, wholeText } from "./platform.js";

const GROUP = 65536;
const GROUPS_OF_6 = 8;
/** Longer texts are not addresses. */
const LONGEST = 45;

/** Groups of 16 bits, two for IPv4 and eight for IPv6. Empty if the text is not an address. */
export function addressGroups(text: string): number[] {
  if (text.length === 0 || text.length > LONGEST) return [];
  if (findText(text, ":", 0) < 0) return groupsOf4(text);
  const groups = groupsOf6(text);
  return isMapped(groups) ? [groups[6]!, groups[7]!] : groups;
}

/** IPv4 in IPv6 notation, ::ffff:0:0/96. */
function isMapped(groups: number[]): boolean {
  if (groups.length !== GROUPS_OF_6 || groups[5] !== 65535) return false;
  for (let i = 0; i < 5; i++) if (groups[i] !== 0) return false;
  return true;
}

function groupsOf4(text: string): number[] {
  const parts = splitText(text, ".");
  if (parts.length !== 4) return [];
  let value = 0;
  for (const part of parts) {
    const byte = part.length <= 3 ? wholeNumber(part) : -1;
    // Some programs read a leading zero as octal.
    if (byte < 0 || byte > 255 || (part.length > 1 && codeAt(part, 0) === 48)) return [];
    value = value * 256 + byte;
  }
  const high = Math.floor(value / GROUP);
  return [high, value - high * GROUP];
}

function groupsOf6(text: string): number[] {
  const gap = findText(text, "::", 0);
  if (gap < 0) {
    const groups = groupList(text);
    return groups.length === GROUPS_OF_6 ? groups : [];
  }
  if (findText(text, "::", gap + 1) >= 0) return [];
  const left = cutText(text, 0, gap);
  const right = cutText(text, gap + 2, text.length);
  const groups = left === "" ? [] : groupList(left);
  const last = right === "" ? [] : groupList(right);
  if ((left !== "" && groups.length === 0) || (right !== "" && last.length === 0)) return [];
  if (groups.length + last.length >= GROUPS_OF_6) return [];
  while (groups.length + last.length < GROUPS_OF_6) groups.push(0);
  for (const group of last) groups.push(group);
  return groups;
}

/** The last 32 bits may be written as IPv4. Empty if a group is invalid. */
function groupList(text: string): number[] {
  const groups: number[] = [];
  const parts = splitText(text, ":");
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i]!;
    if (i === parts.length - 1 && findText(part, ".", 0) >= 0) {
      const four = groupsOf4(part);
      if (four.length === 0) return [];
      groups.push(four[0]!);
      groups.push(four[1]!);
    } else {
      const group = hexGroup(part);
      if (group < 0) return [];
      groups.push(group);
    }
  }
  return groups;
}

function hexGroup(text: string): number {
  if (text.length === 0 || text.length > 4) return -1;
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = hexDigit(codeAt(text, i));
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/** The value of a hexadecimal digit; -1 for other characters. */
export function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  return code >= 65 && code <= 70 ? code - 55 : -1;
}

/** Sets the bits after the first `bits` to zero. */
function masked(groups: number[], bits: number): number[] {
  const kept: number[] = [];
  for (let i = 0; i < groups.length; i++) {
    const own = Math.min(Math.max(bits - i * 16, 0), 16);
    let unit = 1;
    for (let bit = own; bit < 16; bit++) unit = unit * 2;
    kept[i] = Math.floor(groups[i]! / unit) * unit;
  }
  return kept;
}

/** The network of an address as text; the same for all its addresses. Empty if `text` is not an address. */
export function networkText(text: string, bitsOf4: number, bitsOf6: number): string {
  const groups = addressGroups(text);
  if (groups.length === 0) return "";
  if (groups.length === 2) return fourText(masked(groups, bitsOf4));
  return sixText(masked(groups, bitsOf6));
}

/** A client as connections are counted: its IPv4 address, or its IPv6 /64. Empty if `text` is not an address. */
export function clientNetwork(text: string): string {
  return networkText(text, 32, 64);
}

function fourText(groups: number[]): string {
  let text = "";
  for (const group of groups) {
    const high = Math.floor(group / 256);
    text = `${text}${text === "" ? "" : "."}${wholeText(high)}.${wholeText(group - high * 256)}`;
  }
  return text;
}

/** Zeros at the end are written as `::`. */
function sixText(groups: number[]): string {
  let used = groups.length;
  while (used > 0 && groups[used - 1] === 0) used--;
  let text = "";
  for (let i = 0; i < used; i++) text = `${text}${i === 0 ? "" : ":"}${hexText(groups[i]!)}`;
  if (used >= GROUPS_OF_6 - 1) return used === GROUPS_OF_6 ? text : `${text}:0`;
  return `${text}::`;
}

function hexText(group: number): string {
  if (group === 0) return "0";
  let text = "";
  let rest = group;
  while (rest > 0) {
    const next = Math.floor(rest / 16);
    const digit = rest - next * 16;
    text = characterOf(digit < 10 ? digit + 48 : digit + 87) + text;
    rest = next;
  }
  return text;
}

/** An address or a network in CIDR notation. */
export interface Network {
  /** As `addressGroups` returns them. */
  groups: number[];
  bits: number;
}

/** Undefined if the text is neither an address nor a network. */
export function parseNetwork(text: string): Network | undefined {
  const slash = findText(text, "/", 0);
  const address = slash < 0 ? text : cutText(text, 0, slash);
  const groups = addressGroups(address);
  if (groups.length === 0) return undefined;
  const all = groups.length * 16;
  // The prefix of an IPv4 network in IPv6 notation counts from the start of the IPv6 address.
  const offset = groups.length === 2 && findText(address, ":", 0) >= 0 ? 96 : 0;
  const bits = slash < 0 ? all : wholeNumber(cutText(text, slash + 1, text.length)) - offset;
  return bits >= 0 && bits <= all ? { groups: masked(groups, bits), bits } : undefined;
}

export function isInNetwork(groups: number[], network: Network): boolean {
  if (groups.length !== network.groups.length) return false;
  const own = masked(groups, network.bits);
  for (let i = 0; i < own.length; i++) if (own[i] !== network.groups[i]) return false;
  return true;
}

/** Addresses of X-Forwarded-For that are read at most. */
const MOST_HOPS = 32;

/**
 * The client's address. `peer` sent the request; if it is trusted, the last address in its X-Forwarded-For that is not
 * trusted is the client: everything to the left of it may be invented. It may be no address.
 */
export function clientAddress(
  peer: string,
  forwardedFor: string,
  isTrusted: (this: void, address: string) => boolean,
): string {
  return forwardedFor === "" || !isTrusted(peer) ? peer : forwardedAddress(forwardedFor, isTrusted);
}

/** The client's address according to an X-Forwarded-For of a trusted peer, which is not empty. */
export function forwardedAddress(forwardedFor: string, isTrusted: (this: void, address: string) => boolean): string {
  if (findText(forwardedFor, ",", 0) < 0) return withoutPort(trimmed(forwardedFor));
  const listed = splitText(forwardedFor, ",");
  let client = "";
  for (let i = listed.length - 1; i >= 0 && i >= listed.length - MOST_HOPS; i--) {
    client = withoutPort(trimmed(listed[i]!));
    if (!isTrusted(client)) return client;
  }
  return client;
}

/** Without spaces and tabs at both ends. A pattern would take time that grows with the square of the spaces within. */
export function trimmed(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isSpace(codeAt(text, from))) from++;
  while (to > from && isSpace(codeAt(text, to - 1))) to--;
  return from === 0 && to === text.length ? text : cutText(text, from, to);
}

function isSpace(code: number): boolean {
  return code === 32 || code === 9;
}

/** Some proxies add the port: `1.2.3.4:5`, `[::1]:5`. */
function withoutPort(text: string): string {
  if (text !== "" && codeAt(text, 0) === 91) {
    const end = findText(text, "]", 0);
    return end < 0 ? text : cutText(text, 1, end);
  }
  const colon = findText(text, ":", 0);
  return colon >= 0 && findText(text, ":", colon + 1) < 0 ? cutText(text, 0, colon) : text;
}
