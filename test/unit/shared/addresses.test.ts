/** Lists of networks, and what counts as one address. */
import { describe, expect, it } from "vitest";
import { createAddressMatcher, networkOf, plainAddress } from "../../../src/shared/addresses.js";

describe("a list of networks", () => {
  const matches = createAddressMatcher(["10.0.0.0/8", "192.0.2.7", "::1/128", "2001:db8::/32"]);

  it.each([
    ["10.1.2.3", true],
    ["11.1.2.3", false],
    ["192.0.2.7", true],
    ["192.0.2.8", false],
    ["::1", true],
    ["2001:db8::5", true],
    ["2001:db9::5", false],
    ["", false],
    ["unknown", false],
    ["10.1.2.3/8", false],
  ])("contains %s: %s, asked once or again", (address, expected) => {
    expect([matches(address), matches(address)]).toEqual([expected, expected]);
  });

  it("stays right after more addresses than it remembers", () => {
    for (let i = 0; i < 5_000; i++) {
      const rest = `${i >> 8}.${i & 255}`;
      expect(matches(`10.0.${rest}`)).toBe(true);
      expect(matches(`11.0.${rest}`)).toBe(false);
    }
  });

  it("without networks contains nothing", () => expect(createAddressMatcher([])("127.0.0.1")).toBe(false));

  it.each(["10.0.0.0/33", "10.0.0.0/x", "x"])("rejects the network %s", (network) => {
    expect(() => createAddressMatcher([network])).toThrow();
  });
});

it("an IPv4 address of a socket for both families is the plain one", () => {
  expect(plainAddress("::ffff:10.0.0.1")).toBe("10.0.0.1");
  expect(plainAddress("::1")).toBe("::1");
});

it("the addresses of one /64 count as one", () => {
  expect(networkOf("2001:DB8:0:1::5%eth0")).toBe(networkOf("2001:db8::1:aaaa:bbbb:cccc:dddd"));
  expect(networkOf("2001:db8:0:2::5")).not.toBe(networkOf("2001:db8:0:1::5"));
  expect(networkOf("192.0.2.1")).toBe("192.0.2.1");
});
