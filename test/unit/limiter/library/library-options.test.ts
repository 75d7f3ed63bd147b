/** Mistakes in the options of the library are reported with the name of the option and the reason, before a store is opened. */
import { expect, it } from "vitest";
import { type CreateLimiterOptions, createLimiter } from "../../../../src/limiter/library/library.js";

const apps = { default: { guaranteed: 1 } };

it.each([
  ["no options", undefined, "createLimiter needs options, for example { apps: { default:"],
  ["no apps", {}, "apps is missing: an object with limits by app"],
  ["apps as a list", { apps: [] }, "apps is missing"],
  ["an unknown option", { apps, stroe: "redis://x" }, "stroe is not an option; there are apps, lease"],
  ["an unknown option of an app", { apps: { a: { guaranteed: 1, brust: 2 } } }, "apps.a.brust is not an option"],
  ["an app without limits", { apps: { a: null } }, "apps.a must be an object"],
  ["an app without a rate", { apps: { a: {} } }, "apps.a.guaranteed must be a number"],
  [
    "an unknown profile",
    { apps: { a: { guaranteed: 1, profile: "cheap" } } },
    "apps.a.profile must be a profile or one of",
  ],
  [
    "an unknown policy",
    { apps: { a: { guaranteed: 1, onStoreFailure: "fail" } } },
    "apps.a.onStoreFailure must be open",
  ],
  ["an unknown option of the cluster", { apps, cluster: { name: "x" } }, "cluster.name is not an option"],
  ["an unknown option of the lease", { apps, lease: { reserv: 1 } }, "lease.reserv is not an option"],
  [
    "an unknown option of a limit",
    { apps, limits: [{ name: "a", rate: "1/s", keys: ["ip"] }] },
    "limits[0].keys is not an option",
  ],
  [
    "an unknown condition",
    { apps, limits: [{ name: "a", rate: "1/s", match: { paths: [] } }] },
    "limits[0].match.paths is not",
  ],
  ["an inherited name", { apps, toString: 1 }, "toString is not an option"],
])("%s", async (_what, options, message) => {
  await expect(createLimiter(options as unknown as CreateLimiterOptions)).rejects.toThrow(message);
});
