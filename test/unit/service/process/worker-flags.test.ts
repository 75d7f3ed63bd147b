/** Flags of worker processes. */
import { expect, it } from "vitest";
import { workerFlags } from "../../../../src/service/process/workers.js";

it("workers have the flags of the service and a bound on the young generation", () => {
  expect(workerFlags(["--import", "tsx"])).toEqual(["--import", "tsx", "--max-semi-space-size=16"]);
  expect(workerFlags([], "--max-old-space-size=300")).toEqual(["--max-semi-space-size=16"]);
});

it("a bound that the operator has set is kept", () => {
  expect(workerFlags(["--max-semi-space-size=64"])).toEqual(["--max-semi-space-size=64"]);
  expect(workerFlags(["--max_semi_space_size=1"])).toEqual(["--max_semi_space_size=1"]);
  expect(workerFlags([], "--max-semi-space-size=32")).toEqual([]);
});
