/** All spellings of a host are one host. */
import { expect, it } from "vitest";
import { hostName } from "../../../src/core/host.js";

it.each([
  ["A.b:80", "a.b"],
  ["a.b.", "a.b"],
  ["A.B.:8080", "a.b"],
  ["a.b:", "a.b"],
  ["[::1]:80", "[::1]"],
  ["[::1]", "[::1]"],
  ["", ""],
  [".", "."],
  [":80", ":80"],
])("the name of host %s is %s", (host, expected) => expect(hostName(host)).toBe(expected));
