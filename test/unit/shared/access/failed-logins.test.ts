/** Guessing is slow, honest callers are not shut out, and memory is bounded. */
import { describe, expect, it } from "vitest";
import { createFailedLogins } from "../../../../src/shared/access/failed-logins.js";

function logins(options = {}) {
  const clock = { now: 0 };
  const own = createFailedLogins({ now: () => clock.now, ...options });
  const fail = (address: string, times: number) => {
    for (let i = 0; i < times; i++) own.failed(address);
  };
  return { ...own, fail, clock };
}

describe("an address", () => {
  it("is locked after ten wrong tokens in a minute, until the minute is over", () => {
    const { waitMs, fail, clock } = logins();
    fail("10.0.0.1", 9);
    expect(waitMs("10.0.0.1")).toBe(0);
    clock.now = 20_000;
    fail("10.0.0.1", 1);
    expect(waitMs("10.0.0.1")).toBe(40_000);
    expect(waitMs("10.0.0.2")).toBe(0);
    clock.now = 60_000;
    expect(waitMs("10.0.0.1")).toBe(0);
    fail("10.0.0.1", 1);
    expect(waitMs("10.0.0.1")).toBe(0);
  });

  it("that has shown the right token within the hour is never locked", () => {
    const { waitMs, fail, succeeded, clock } = logins();
    succeeded("10.0.0.1");
    fail("10.0.0.1", 100);
    expect(waitMs("10.0.0.1")).toBe(0);
    clock.now = 3_600_000;
    fail("10.0.0.1", 10);
    expect(waitMs("10.0.0.1")).toBe(60_000);
  });

  it.each([
    ["2001:db8:1:2:aaaa::1", "2001:db8:1:2:bbbb:cccc:dddd:1", true],
    ["2001:db8:1:2::1", "2001:0db8:0001:0002:0:0:0:9", true],
    ["2001:db8::1", "2001:db8:0:0:5::", true],
    ["fe80::1%eth0", "fe80::2%eth0", true],
    ["2001:db8:1:2::1", "2001:db8:1:3::1", false],
    ["::1", "1::", false],
    ["10.0.0.1", "10.0.0.2", false],
  ])("%s and %s are one: %s", (one, other, same) => {
    const { waitMs, fail } = logins();
    fail(one, 10);
    expect(waitMs(other) > 0).toBe(same);
  });
});

it("remembers a bounded number of addresses, and drops the one whose last failure is oldest", () => {
  const { waitMs, fail } = logins({ maxAddresses: 3 });
  for (const address of ["10.0.0.1", "10.0.0.2", "10.0.0.3"]) fail(address, 10);
  fail("10.0.0.1", 1);
  fail("10.0.0.4", 1);
  expect(["10.0.0.1", "10.0.0.2", "10.0.0.3"].map((address) => waitMs(address) > 0)).toEqual([true, false, true]);
});
