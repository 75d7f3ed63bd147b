/** Mistakes in the options of the library are reported with the name of the option and the reason, before a store is opened. */
import { expect, it } from "vitest";
import { defaultLeaseOptions } from "../../../../src/core/lease.js";
import { createLimiter } from "../../../../src/limiter/library/library.js";
import type { CreateLimiterOptions } from "../../../../src/limiter/library/library-options.js";
import { leaseDefaults } from "../../../../src/limiter/library/option-schema.js";

const apps = { default: { guaranteed: 1 } };

it.each([
  ["no options", undefined, "createLimiter needs options, for example { limits: ["],
  ["nothing to limit", {}, "apps, limits or buckets must be given, for example { limits: ["],
  ["apps as a list", { apps: [] }, "apps must be an object with limits by name"],
  ["an unknown option", { apps, stroe: "redis://x" }, "stroe is not an option; there are apps, limits"],
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
  [
    "a rate as a text",
    { apps: { a: { guaranteed: "5" } } },
    "apps.a.guaranteed must be a number from 0.000001 to 1000000000",
  ],
  ["a rate of null", { apps: { a: { guaranteed: null } } }, "apps.a.guaranteed must be a number"],
  ["a default burst with a fraction", { apps: { a: { guaranteed: 0.3 } } }, "apps.a.burst must be a whole number"],
  ["dryRun as a text", { apps: { a: { guaranteed: 1, dryRun: "yes" } } }, "apps.a.dryRun must be true or false"],
  ["half a profile", { apps: { a: { guaranteed: 1, profile: { quantum: 1 } } } }, "apps.a.profile must be a profile"],
  ["a negative timeout", { apps, timeoutMs: -1 }, "timeoutMs must be a whole number from 10 to 60000"],
  ["a cluster id with a space", { apps, cluster: { id: "a b" } }, "cluster.id must be 1 to"],
  ["a capacity as a text", { apps, cluster: { capacity: "9" } }, "cluster.capacity must be a whole number"],
  ["no shards", { apps, cluster: { shards: 0 } }, "cluster.shards must be a whole number from 1 to"],
  [
    "an interval as a text",
    { apps, lease: { syncIntervalMs: "9" } },
    "lease.syncIntervalMs must be a whole number from 10 to 60000",
  ],
  ["a store of another type", { apps, store: 7 }, 'store must be "embedded", a Redis URL or a store'],
  ["an observer of another type", { apps, observer: 7 }, "observer must be an object"],
  ["a limit without a name", { apps, limits: [{ rate: "1/s" }] }, "limits[0].name must be 1 to 48 of"],
  [
    "a limit without a rate",
    { apps, limits: [{ name: "a" }] },
    "limits[0].rate must be a number of at most 1,000,000,000 per s, min, h or day, for example 10/s",
  ],
  [
    "an unknown key of a limit",
    { apps, limits: [{ name: "a", rate: "1/s", key: ["planet"] }] },
    "limits[0].key[0] must be app, user, ip",
  ],
  [
    "a route, which a library does not have",
    { apps, limits: [{ name: "a", rate: "1/s", key: ["route"] }] },
    "limits[0].key[0] must be app, user, ip, method, host, path or header:NAME",
  ],
  [
    "a condition that is no list",
    { apps, limits: [{ name: "a", rate: "1/s", match: { path: "/x" } }] },
    "limits[0].match.path must be a list of at most 1000",
  ],
  ["a name of an app with a space", { apps: { "a b": { guaranteed: 1 } } }, "apps: a name must be 1 to 128 of"],
  [
    "a header without a value",
    { apps, limits: [{ name: "a", rate: "1/s", match: { header: [{ name: "x" }] } }] },
    "limits[0].match.header[0].value must be 1 to 1024",
  ],
  [
    "a path without a slash",
    { apps, limits: [{ name: "a", rate: "1/s", match: { path: ["x"] } }] },
    "limits[0].match.path[0] must begin with / or *",
  ],
  ["a bucket without a rate", { buckets: { emails: {} } }, "buckets.emails.rate must be a number of at most"],
  ["a bucket with a colon", { buckets: { "a:b": { rate: "1/s" } } }, "buckets: a name must be 1 to 48 of"],
  [
    "a bucket with the name of a limit",
    { limits: [{ name: "a", rate: "1/s" }], buckets: { a: { rate: "1/s" } } },
    "buckets.a must have another name",
  ],
  [
    "two limits with the same name",
    { limits: ["a", "b", "a"].map((name) => ({ name, rate: "1/s" })) },
    "limits[2].name must be another one: limits[0] has the same",
  ],
  [
    "denied values without a key",
    { limits: [{ name: "a", rate: "1/s", deny: ["x"] }] },
    "limits[0].deny requires a key with exactly one part",
  ],
  [
    "allowed values of two parts",
    { limits: [{ name: "a", rate: "1/s", key: ["user", "ip"], allow: ["x"] }] },
    "limits[0].allow requires a key with exactly one part",
  ],
  [
    "an empty denied value",
    { limits: [{ name: "a", rate: "1/s", key: ["user"], deny: [""] }] },
    "limits[0].deny[0] must be 1 to 1024 characters, without control characters",
  ],
  [
    "a denied value with a control character",
    { limits: [{ name: "a", rate: "1/s", key: ["user"], deny: ["a\u0085"] }] },
    "limits[0].deny[0] must be 1 to 1024 characters, without control characters",
  ],
  [
    "prices without apps",
    { limits: [{ name: "a", rate: "1/s", count: "cost" }] },
    "limits[0].count must be request without apps",
  ],
  ["an inherited name", { apps, toString: 1 }, "toString is not an option"],
])("%s", async (_what, options, message) => {
  await expect(createLimiter(options as unknown as CreateLimiterOptions)).rejects.toThrow(message);
});

it("the defaults that the limiter assumes by itself are those of the configuration", () => {
  expect(leaseDefaults).toEqual(defaultLeaseOptions);
});
