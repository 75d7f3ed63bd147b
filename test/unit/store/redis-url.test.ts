/** Store urls: each form is parsed, and errors name the invalid part without quoting the url. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { openStore } from "../../../src/store/open.js";
import { isRedisUrl, parseRedisUrl } from "../../../src/store/redis/redis-url.js";

describe("valid urls", () => {
  const host = { host: "h", port: 6379 };
  it.each([
    ["redis://h", { kind: "redis", tls: false, hosts: [host], db: 0 }],
    ["redis://h/", { kind: "redis", tls: false, hosts: [host], db: 0 }],
    ["REDIS://h:7000/2", { kind: "redis", tls: false, hosts: [{ host: "h", port: 7000 }], db: 2 }],
    ["rediss://u:p@h", { kind: "redis", tls: true, hosts: [host], username: "u", password: "p", db: 0 }],
    ["redis://:p%40%2F%3A@h", { kind: "redis", tls: false, hosts: [host], password: "p@/:", db: 0 }],
    ["redis://u:a@b@h", { kind: "redis", tls: false, hosts: [host], username: "u", password: "a@b", db: 0 }],
    ["redis://[::1]:7000", { kind: "redis", tls: false, hosts: [{ host: "::1", port: 7000 }], db: 0 }],
    [
      "redis-cluster://a:1,b:2,[::1]",
      {
        kind: "redis-cluster",
        tls: false,
        hosts: [
          { host: "a", port: 1 },
          { host: "b", port: 2 },
          { host: "::1", port: 6379 },
        ],
        db: 0,
      },
    ],
    ["rediss-cluster://h", { kind: "redis-cluster", tls: true, hosts: [host], db: 0 }],
    [
      "redis-sentinel://u:p@a,b:2/main/3",
      {
        kind: "redis-sentinel",
        tls: false,
        hosts: [
          { host: "a", port: 26379 },
          { host: "b", port: 2 },
        ],
        username: "u",
        password: "p",
        sentinelName: "main",
        db: 3,
      },
    ],
    [
      "rediss-sentinel://h:1/m",
      { kind: "redis-sentinel", tls: true, hosts: [{ host: "h", port: 1 }], sentinelName: "m", db: 0 },
    ],
  ])("%s", (url, address) => {
    expect(parseRedisUrl(url)).toEqual(address);
    expect(isRedisUrl(url)).toBe(true);
  });
});

describe("invalid urls", () => {
  it.each([
    ["", /the scheme must be one of redis:\/\/, rediss:\/\//],
    ["localhost:6379", /the scheme/],
    ["http://h", /the scheme/],
    ["__proto__://h", /the scheme/],
    ["redis:h", /the scheme/],
    ["redis://", /the host is missing/],
    ["redis://:6379", /the host is missing/],
    ["redis://u:p@", /the host is missing/],
    ["redis-cluster://a:1,,b:2", /host 2 is missing/],
    ["redis-cluster://", /the host is missing/],
    ["redis://h:port", /the port of the host is not a number/],
    ["redis://h:", /the port of the host is not a number/],
    ["redis://h:0", /the port of the host is not between 1 and 65535/],
    ["redis-cluster://a:1,b:65536", /the port of host 2 is not between 1 and 65535/],
    ["redis://h h", /is not a host name/],
    ["redis://::1:7000", /is missing|is not a host name/],
    ["redis://a:1,b:2", /several hosts/],
    ["redis://u@h", /a user name but no password/],
    ["redis://u:@h", /a user name but no password/],
    ["redis://u:%zz@h", /the password has a %/],
    ["redis://%zz:p@h", /the user name has a %/],
    ["redis://u:p/w@h", /an @ after the first \//],
    ["redis://u:p?w@h", /after \? or #/],
    ["redis://h/x", /the database is not a whole number/],
    ["redis://h/-1", /the database is not a whole number/],
    ["redis://h/1/2", /more than one \//],
    ["redis://h?db=2", /after \? or #/],
    ["redis-cluster://h/1", /only has database 0/],
    ["redis-sentinel://h", /the name of the primary is missing/],
    ["redis-sentinel://h/", /the name of the primary is missing/],
    ["redis-sentinel://h/m/x", /the database is not a whole number/],
  ])("%s", (url, message) => {
    expect(() => parseRedisUrl(url)).toThrow(message);
    expect(() => openStore(url)).toThrow(/^invalid store url: /);
  });

  it("are never quoted in the error, so that no password leaks", () => {
    const secret = "s3cr3t";
    const around = fc.string({
      unit: fc.constantFrom("/", "?", "#", "@", ":", "%", " ", "x", ",", "[", "]"),
      maxLength: 6,
    });
    const scheme = fc.constantFrom("redis://", "redis-cluster://", "redis-sentinel://", "rediss:/", "");
    fc.assert(
      fc.property(scheme, around, around, around, (start, before, after, end) => {
        try {
          parseRedisUrl(`${start}${before}${secret}${after}h:1${end}`);
        } catch (error) {
          expect(String(error)).not.toContain(secret);
          expect(String(error)).toMatch(/^Error: invalid store url: /);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
