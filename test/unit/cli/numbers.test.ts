/** Numbers, times and durations as people read and write them. */
import { describe, expect, it, test } from "vitest";
import { UsageError } from "../../../src/cli/command.js";
import * as numbers from "../../../src/cli/numbers.js";

describe("numbers", () => {
  it("are grouped and truncated", () => {
    expect([0, 999.9, 1_234_567.8, -3.2, -0.4].map(numbers.whole)).toEqual(["0", "999", "1,234,567", "-3", "0"]);
  });

  it("are shown as configured", () => {
    expect([20, 0.5, 0.000001, 10_000, 1_234_567.5].map(numbers.amount)).toEqual([
      "20",
      "0.5",
      "0.000001",
      "10,000",
      "1,234,567.5",
    ]);
  });

  it("have one decimal if they are small rates", () => {
    expect([0, 0.25, 99.94, 123.4, 12_345.6].map(numbers.perSecond)).toEqual(["0", "0.3", "99.9", "123", "12,346"]);
  });

  it("are percentages, 100 % only if complete", () => {
    expect(numbers.percent(0.98765)).toBe("98.8 %");
    expect(numbers.percentOf(99_999, 100_000)).toBe("99.9 %");
    expect(numbers.percentOf(100_000, 100_000)).toBe("100.0 %");
    expect(numbers.percentOf(1, 0)).toBe("-");
  });

  it("are latencies in a suitable unit", () => {
    expect([0, 0.0004, 0.012, 0.5, 3.44, 250, 1_500].map(numbers.latency)).toEqual([
      "0.0 µs",
      "0.4 µs",
      "12 µs",
      "500 µs",
      "3.4 ms",
      "250 ms",
      "1.5 s",
    ]);
  });

  it("are durations with at most two units", () => {
    expect([0, 59.9, 60, 3_723, 7_200, 90_061, -5].map(numbers.span)).toEqual([
      "0s",
      "59s",
      "1m",
      "1h 2m",
      "2h",
      "1d 1h",
      "0s",
    ]);
    expect(numbers.ago("2025-01-02T03:04:05.000Z", Date.parse("2025-01-02T03:05:10.000Z"))).toBe("1m 5s ago");
    expect(numbers.ago("2025-01-02T03:04:05.000Z", Date.parse("2025-01-02T03:04:05.500Z"))).toBe("now");
  });
});

describe("durations", () => {
  const bounds = { leastMs: 1_000, mostMs: 86_400_000 };

  test.each([
    ["30s", 30_000],
    ["5m", 300_000],
    ["2h", 7_200_000],
    ["1d", 86_400_000],
    ["1500ms", 1_500],
    ["1h30m", 5_400_000],
    ["1.5h", 5_400_000],
  ])("%s is %i ms", (text, ms) => {
    expect(numbers.readDuration("--for", text, bounds)).toBe(ms);
  });

  test.each([
    ["300", /--for: "300" has no unit; use 300s for seconds or 300m for minutes/],
    ["soon", /--for: "soon" is not a duration; examples: 500ms, 30s, 5m, 2h, 1d, 1h30m/],
    ["", /is not a duration/],
    ["-5m", /is not a duration/],
    ["5 m", /is not a duration/],
    ["5m!", /is not a duration/],
    ["1.2.3s", /is not a duration/],
    ["500ms", /"500ms" is not between 1s and 1d/],
    ["2d", /"2d" is not between 1s and 1d/],
    [`${"9".repeat(400)}s`, /is not between/],
  ])("%j is rejected with a reason", (text, reason) => {
    const read = () => numbers.readDuration("--for", text, bounds);
    expect(read).toThrow(UsageError);
    expect(read).toThrow(reason);
  });
});

describe("integers", () => {
  it("are accepted within their bounds", () => {
    expect(numbers.readWhole("LEVEL", "3", { least: 0, most: 3 })).toBe(3);
  });

  test.each([["4"], ["-1"], ["1e0"], ["1.0"], [""], ["one"], ["0x1"]])("%j is rejected", (text) => {
    expect(() => numbers.readWhole("LEVEL", text, { least: 0, most: 3 })).toThrow(
      `LEVEL: ${JSON.stringify(text)} is not an integer from 0 to 3`,
    );
  });
});
