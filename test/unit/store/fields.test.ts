/** The fields of a hash of the embedded store: the same as a map of texts, whatever their number and values. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { Fields } from "../../../src/store/embedded/fields.js";

const numbers = [
  "0",
  "-0",
  "007",
  "1e3",
  "1e+21",
  "0.5",
  "-12",
  " 1",
  "9007199254740993",
  "NaN",
  "inf",
  "Infinity",
  "",
];
const step = fc.record({
  remove: fc.integer({ max: 3, min: 0 }).map((n) => n === 0),
  name: fc.oneof(
    fc.nat(40).map((n) => `f${n}`),
    fc.string(),
  ),
  text: fc.oneof(fc.constantFrom(...numbers), fc.double().map(String), fc.string({ unit: "binary" })),
});

it("every history of changes leaves the same fields in the same order as a map", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const fields = new Fields();
      const map = new Map<string, string>();
      for (const { remove, name, text } of steps) {
        if (remove) expect(fields.delete(name)).toBe(map.delete(name));
        else {
          fields.set(name, text);
          map.set(name, text);
        }
        expect(fields.get(name)).toBe(map.get(name));
      }
      expect(fields.list()).toEqual([...map].flat());
      expect(fields.size).toBe(map.size);
    }),
  );
});

it("hashes with the same names do not share values", () => {
  const [one, other] = [new Fields(), new Fields()];
  for (const fields of [one, other]) for (const name of ["a", "b"]) fields.set(name, "1");
  one.set("a", "2");
  one.delete("b");
  expect(one.list()).toEqual(["a", "2"]);
  expect(other.list()).toEqual(["a", "1", "b", "1"]);
});
