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
  ["a rate as a text", { apps: { a: { guaranteed: "5" } } }, "apps.a.guaranteed must be a number from 0 to 1000000000"],
  ["a rate of null", { apps: { a: { guaranteed: null } } }, "apps.a.guaranteed must be a number"],
  ["a default burst with a fraction", { apps: { a: { guaranteed: 0.3 } } }, "apps.a.burst must be a whole number"],
  ["dryRun as a text", { apps: { a: { guaranteed: 1, dryRun: "yes" } } }, "apps.a.dryRun must be true or false"],
  ["half a profile", { apps: { a: { guaranteed: 1, profile: { quantum: 1 } } } }, "apps.a.profile must be a profile"],
  ["a negative timeout", { apps, timeoutMs: -1 }, "timeoutMs must be a number from 1 to"],
  ["a cluster id with a space", { apps, cluster: { id: "a b" } }, "cluster.id must be 1 to"],
  ["a capacity as a text", { apps, cluster: { capacity: "9" } }, "cluster.capacity must be a number"],
  ["no shards", { apps, cluster: { shards: 0 } }, "cluster.shards must be a whole number from 1 to"],
  ["an interval as a text", { apps, lease: { syncIntervalMs: "9" } }, "lease.syncIntervalMs must be a number"],
  ["a store of another type", { apps, store: 7 }, 'store must be "embedded", a Redis URL or a store'],
  ["an observer of another type", { apps, observer: 7 }, "observer must be an object"],
  ["a limit without a name", { apps, limits: [{ rate: "1/s" }] }, "limits[0].name must be 1 to 48 of"],
  ["a limit without a rate", { apps, limits: [{ name: "a" }] }, "limits[0].rate must be like 10/s"],
  [
    "an unknown key of a limit",
    { apps, limits: [{ name: "a", rate: "1/s", key: ["planet"] }] },
    "limits[0].key must be a list of app, user, ip",
  ],
  [
    "a condition that is no list",
    { apps, limits: [{ name: "a", rate: "1/s", match: { path: "/x" } }] },
    "limits[0].match.path must be a list of texts",
  ],
  ["an inherited name", { apps, toString: 1 }, "toString is not an option"],
])("%s", async (_what, options, message) => {
  await expect(createLimiter(options as unknown as CreateLimiterOptions)).rejects.toThrow(message);
});
