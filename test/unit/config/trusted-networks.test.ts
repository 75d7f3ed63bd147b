/** Trusted networks become 32-bit words for the Envoy script. */
import { expect, it } from "vitest";
import { trustedNetwork } from "../../../src/config/options/planes.js";

it.each([
  ["10.0.0.0/8", [0x0a000000], 8],
  ["255.255.255.255/32", [0xffffffff], 32],
  ["0.0.0.0/0", [0], 0],
  ["::1/128", [0, 0, 0, 1], 128],
  ["::/0", [0, 0, 0, 0], 0],
  ["2001:db8::/32", [0x20010db8, 0, 0, 0], 32],
  ["fe80::1:2:3:4/64", [0xfe800000, 0, 0x00010002, 0x00030004], 64],
  ["1:2:3:4:5:6:7:8/128", [0x00010002, 0x00030004, 0x00050006, 0x00070008], 128],
  ["::ffff:10.1.2.3/104", [0, 0, 0xffff, 0x0a010203], 104],
])("%s", (network, words, bits) => {
  expect(trustedNetwork(network)).toEqual({ words, bits });
});
