/** Who may call the control listener: by address, by the name it is called by, and by token. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { createHopTrust, plainAddress } from "../planes/node/trusted-hops.js";

/** Empty: there is no such token, and nobody has it. */
export type TokenCheck = (request: IncomingMessage) => boolean;

const digest = (text: string) => createHash("sha256").update(text).digest();

/** Compares digests, in a time that tells nothing of how much of a token was right. */
export function createTokenCheck(token: string): TokenCheck {
  const expected = digest(token);
  return ({ headers: { authorization = "" } }) => {
    const given = /^Bearer +([!-~]+)$/i.exec(authorization)?.[1] ?? "";
    const same = timingSafeEqual(digest(given), expected);
    return same && token !== "";
  };
}

export function createAddressCheck(allow: readonly string[]): (request: IncomingMessage) => boolean {
  const isAllowed = createHopTrust(allow);
  return ({ socket }) => isAllowed(plainAddress(socket.remoteAddress ?? ""));
}

/**
 * A page in a browser can be made to call a name of its owner that resolves to this machine. It cannot do so with a
 * plain address, with localhost, or with the names that the operator lists.
 */
export function createHostCheck(names: readonly string[]): (request: IncomingMessage) => boolean {
  const known = new Set(["localhost", ...names.map((name) => name.toLowerCase())]);
  return ({ headers: { host = "" } }) => {
    const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?$/.exec(host.toLowerCase());
    if (match === null) return false;
    const [, v6, name = ""] = match;
    return v6 !== undefined ? isIP(v6) === 6 : isIP(name) === 4 || known.has(name.replace(/\.$/, ""));
  };
}
