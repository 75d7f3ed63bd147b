/** The JavaScript platform functions: strict about numbers and ids. A contract test compares them with the Lua ones. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  isIdentifier,
  joinValues,
  splitText,
  storedNumber,
  wholeNumber,
  wholeNumbers,
  wholeText,
} from "../../../src/core/platform.js";

const noWholeNumbers = [
  ["", " 5", "5 ", "5\n", "-5", "+5", "1.0", "1e3", "0x10", "nan", "inf", "Infinity"],
  ["１２", "٣", "5\0", "\0", "__proto__", "½"],
].flat();

describe("a whole number", () => {
  it("is decimal digits and nothing else", () => {
    expect(wholeNumber("0")).toBe(0);
    expect(wholeNumber("007")).toBe(7);
    expect(wholeNumber("9007199254740992")).toBe(2 ** 53);
    expect(wholeNumber("1".repeat(400))).toBe(Number.POSITIVE_INFINITY);
    for (const text of noWholeNumbers) expect(wholeNumber(text)).toBe(-1);
  });

  it("is read the same alone and among others", () => {
    const texts = ["5", "", "7", "1,2", "-1", "0x10", "12"];
    expect(wholeNumbers(texts, 1, ["a", "b", "c", "d", "e"])).toEqual({ a: -1, b: 7, c: -1, d: -1, e: -1 });
    expect(wholeNumbers(texts, 6, ["a"])).toEqual({ a: 12 });
    expect(wholeNumbers(texts, 3, [])).toEqual({});
  });

  it("comes back as it was written", () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (value) => {
        expect(wholeNumber(wholeText(value))).toBe(value);
      }),
    );
  });

  it("is written without an exponent, and without the sign of minus zero", () => {
    expect([1e15, 2 ** 53, -5, 0, -0].map(wholeText)).toEqual(["1000000000000000", "9007199254740992", "-5", "0", "0"]);
  });
});

describe("a stored number", () => {
  it("is read back exactly as Redis writes it, with 17 digits", () => {
    const anyNumber = fc.double({ noNaN: true, noDefaultInfinity: true });
    fc.assert(
      fc.property(anyNumber, (value) => {
        expect(storedNumber(String(value), -1)).toBe(value === 0 ? 0 : value);
        if (value !== 0) expect(storedNumber(value.toExponential(16), -1)).toBe(value);
      }),
    );
  });

  it("falls back where nothing is stored, or no finite number", () => {
    expect(storedNumber(false, 7)).toBe(7);
    const texts = [
      "",
      " ",
      " 5",
      "5 ",
      "+5",
      ".5",
      "0x10",
      "0b1",
      "0o7",
      "1E3",
      "nan",
      "NaN",
      "inf",
      "-inf",
      "Infinity",
    ];
    for (const text of texts) expect(storedNumber(text, 7)).toBe(7);
    for (const text of ["1e999", "-1e999", "1.2.3", "1e", "5e+", "1-2", "5\0", "１２", "\u00a05"]) {
      expect(storedNumber(text, 7)).toBe(7);
    }
  });
});

describe("an id", () => {
  it("is 1 to 128 of A–Z a–z 0–9 . _ : -", () => {
    for (const text of ["a", "A.z_0:9-", "-", "__proto__", "x".repeat(128)]) expect(isIdentifier(text)).toBe(true);
    for (const text of ["", "x".repeat(129), "a b", "a\n", "\na", "a\0", "ä", "a{b}", "a/b", "a@b", "１"]) {
      expect(isIdentifier(text)).toBe(false);
    }
  });
});

it("what is joined comes apart again", () => {
  const part = fc.string().filter((text) => !text.includes(" "));
  fc.assert(
    fc.property(fc.array(part, { minLength: 1 }), (parts) => {
      expect(splitText(joinValues(parts, " ", 0), " ")).toEqual(parts);
    }),
  );
  expect(joinValues(["ok", 7, -0, -3, 2 ** 53, "x"], " ", 2 ** 53)).toBe("ok 7 0 -3 9007199254740992 x");
  expect(splitText("", " ")).toEqual([""]);
  expect(splitText(" a  b ", " ")).toEqual(["", "a", "", "b", ""]);
});
