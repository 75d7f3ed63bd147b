/** The options of the library. Generated from the schema of the configuration by `npx tsx build/reference-pages.ts`; `make check` compares them. */
import type { CostProfile } from "../../core/cost.js";
import type { ObjectRule } from "./option-checks.js";

/** The limits of an app: a tenant, which pays for its requests in tokens. */
export interface AppOptions {
  /** L2: tokens per second. */
  guaranteed: number;
  /** L2: maximum tokens. Default: twice `guaranteed`. */
  burst?: number | undefined;
  /** In an emergency, priority 0 keeps 100 % of its quota, 1 keeps 50 %, 2 keeps 10 %, others are blocked. Default: 2. */
  priority?: number | undefined;
  /** How requests are priced: the name of a profile, or a complete one. Default: "standard". */
  profile?: "standard" | "iops" | "bandwidth" | CostProfile | undefined;
  /** Whether the app may borrow idle tokens of the cluster. Default: false. */
  borrow?: boolean | undefined;
  /** The app's own limit decides as usual, but refuses nothing. Limits of `limits` have their own option. Default: false. */
  dryRun?: boolean | undefined;
  /** Without the store, each node applies the app's whole limit by itself, its share of it, or admits nothing. Default: "open". */
  onStoreFailure?: "open" | "local" | "closed" | undefined;
  /** With `onStoreFailure: open`, tokens per second of one node without the store, instead of the app's own limit. Default: the global `failOpenTokens`. */
  failOpenTokens?: number | undefined;
}
export const appRules: ObjectRule = {
  required: ["guaranteed"],
  properties: {
    guaranteed: {
      must: "be a number from 0.000001 to 1000000000",
      type: "number",
      minimum: 0.000001,
      maximum: 1000000000,
    },
    burst: { must: "be a whole number from 1 to 1000000000", type: "integer", minimum: 1, maximum: 1000000000 },
    priority: { must: "be a whole number from 0 to 1000", type: "integer", minimum: 0, maximum: 1000 },
    profile: { must: "be a profile or one of standard, iops, bandwidth", format: "profile" },
    borrow: { must: "be true or false", type: "boolean" },
    dryRun: { must: "be true or false", type: "boolean" },
    onStoreFailure: { must: "be open or local or closed", type: "string", enum: ["open", "local", "closed"] },
    failOpenTokens: {
      must: "be a whole number from 0 to 1000000000",
      type: "integer",
      minimum: 0,
      maximum: 1000000000,
    },
  },
};
export const appDefaults = { priority: 2, borrow: false, dryRun: false, onStoreFailure: "open" } as const;

/** A limit of all requests that it matches, with a bucket for each value of its key. */
export interface LimitOptions {
  /** Name in responses, metrics and commands. */
  name: string;
  /** What has its own bucket: any combination of app, user, ip, method, host, path or header:NAME. Requests without the header share one bucket. Empty: one bucket for all requests. */
  key?: string[] | undefined;
  /** The requests that the limit applies to. Empty lists match everything. */
  match?:
    | {
        /** Path prefixes of whole segments, or patterns with `*` for any characters. Every reading of a path is compared: decoded, with slashes merged, dot segments resolved, without parameters (`;x`). A slash at the end makes no difference. */
        path?: string[] | undefined;
        /** Methods. */
        method?: string[] | undefined;
        /** Apps. */
        app?: string[] | undefined;
        /** Headers that a request must have, with these values. A header that was sent twice matches. */
        header?:
          | {
              /** Name of the header. */
              name: string;
              /** Its value; `*` matches any characters. */
              value: string;
            }[]
          | undefined;
      }
    | undefined;
  /** Tokens per second, minute, hour or day: `10/s`, `5/min`, `1000/h`, `50000/day`. */
  rate: string;
  /** Maximum tokens of a bucket. Default: the number in `rate`. */
  burst?: number | undefined;
  /** A request takes one token, or its cost in its own profile or its app's. Default: "request". */
  count?: "request" | "cost" | undefined;
  /** Bits of an IPv4 address that are one value of `ip`. Default: 32. */
  ipv4Prefix?: number | undefined;
  /** Bits of an IPv6 address that are one value of `ip`. Default: 64. */
  ipv6Prefix?: number | undefined;
  /** Whether the letter case of a path makes a difference, in `match.path` and as a part of the key. Use `insensitive` if the backend ignores it, as Express does by default. Default: "sensitive". */
  pathCase?: "sensitive" | "insensitive" | undefined;
  /** Values that are not limited; for `ip` also networks. The key must have one part. */
  allow?: string[] | undefined;
  /** Values that are refused with 403; for `ip` also networks. The key must have one part. */
  deny?: string[] | undefined;
  /** A header that was sent twice, is longer than 1,024 bytes or has control characters, and an invalid client address: 400, or count as a request without the value. Default: "reject". */
  invalidValues?: "reject" | "ignore" | undefined;
  /** The limit decides as usual, but refuses nothing. Default: false. */
  dryRun?: boolean | undefined;
  /** In an emergency, priority 0 keeps 100 % of the limit, 1 keeps 50 %, 2 keeps 10 %, others are blocked. Default: 2. */
  priority?: number | undefined;
  /** Without the store, each node applies the whole limit by itself, its share of it, or admits nothing. Default: "open". */
  onStoreFailure?: "open" | "local" | "closed" | undefined;
}
export const limitRules: ObjectRule = {
  required: ["name", "rate"],
  properties: {
    name: { must: "be 1 to 48 of A–Z a–z 0–9 . _ -", type: "string", pattern: "^[A-Za-z0-9._-]{1,48}$" },
    key: {
      must: "be a list of at most 8",
      type: "array",
      maxItems: 8,
      items: {
        must: "be app, user, ip, method, host, path or header:NAME",
        type: "string",
        pattern: "^(app|user|ip|method|host|path|header:[A-Za-z0-9_-]{1,64})$",
      },
    },
    match: {
      must: "be an object",
      type: "object",
      required: [],
      properties: {
        path: {
          must: "be a list of at most 1000",
          type: "array",
          maxItems: 1000,
          items: {
            must: "begin with / or * and have no spaces, ?, # or control characters",
            type: "string",
            pattern: '^[/*][!"$->@-~]*$',
          },
        },
        method: {
          must: "be a list of at most 100",
          type: "array",
          maxItems: 100,
          items: { must: "be an HTTP method in upper case", type: "string", pattern: "^[A-Z][A-Z-]{0,31}$" },
        },
        app: {
          must: "be a list of at most 10000",
          type: "array",
          maxItems: 10000,
          items: { must: "be 1 to 128 of A–Z a–z 0–9 . _ : -", type: "string", pattern: "^[A-Za-z0-9._:-]{1,128}$" },
        },
        header: {
          must: "be a list of at most 100",
          type: "array",
          maxItems: 100,
          items: {
            must: "be an object",
            type: "object",
            required: ["name", "value"],
            properties: {
              name: { must: "be a header name", type: "string", pattern: "^[A-Za-z0-9_-]{1,64}$" },
              value: {
                must: "be 1 to 1024 characters, without control characters",
                type: "string",
                pattern: "^[^\\x00-\\x1f\\x7f-\\x9f]{1,1024}$",
              },
            },
          },
        },
      },
    },
    rate: {
      must: "be a number of at most 1,000,000,000 per s, min, h or day, for example 10/s",
      type: "string",
      format: "rate",
    },
    burst: { must: "be a whole number from 1 to 1000000000", type: "integer", minimum: 1, maximum: 1000000000 },
    count: { must: "be request or cost", type: "string", enum: ["request", "cost"] },
    ipv4Prefix: { must: "be a whole number from 8 to 32", type: "integer", minimum: 8, maximum: 32 },
    ipv6Prefix: { must: "be a whole number from 16 to 128", type: "integer", minimum: 16, maximum: 128 },
    pathCase: { must: "be sensitive or insensitive", type: "string", enum: ["sensitive", "insensitive"] },
    allow: {
      must: "be a list of at most 10000",
      type: "array",
      maxItems: 10000,
      items: {
        must: "be 1 to 1024 characters, without control characters",
        type: "string",
        pattern: "^[^\\x00-\\x1f\\x7f-\\x9f]{1,1024}$",
      },
    },
    deny: {
      must: "be a list of at most 10000",
      type: "array",
      maxItems: 10000,
      items: {
        must: "be 1 to 1024 characters, without control characters",
        type: "string",
        pattern: "^[^\\x00-\\x1f\\x7f-\\x9f]{1,1024}$",
      },
    },
    invalidValues: { must: "be reject or ignore", type: "string", enum: ["reject", "ignore"] },
    dryRun: { must: "be true or false", type: "boolean" },
    priority: { must: "be a whole number from 0 to 1000", type: "integer", minimum: 0, maximum: 1000 },
    onStoreFailure: { must: "be open or local or closed", type: "string", enum: ["open", "local", "closed"] },
  },
};
export const limitDefaults = {
  count: "request",
  ipv4Prefix: 32,
  ipv6Prefix: 64,
  pathCase: "sensitive",
  invalidValues: "reject",
  dryRun: false,
  priority: 2,
  onStoreFailure: "open",
} as const;

/** A limit from which `consume` takes tokens, with a bucket for each key. */
export interface BucketOptions {
  /** Tokens per second, minute, hour or day: `10/s`, `5/min`, `1000/h`, `50000/day`. */
  rate: string;
  /** Maximum tokens of a bucket. Default: the number in `rate`. */
  burst?: number | undefined;
  /** The limit decides as usual, but refuses nothing. Default: false. */
  dryRun?: boolean | undefined;
  /** In an emergency, priority 0 keeps 100 % of the limit, 1 keeps 50 %, 2 keeps 10 %, others are blocked. Default: 2. */
  priority?: number | undefined;
  /** Without the store, each node applies the whole limit by itself, its share of it, or admits nothing. Default: "open". */
  onStoreFailure?: "open" | "local" | "closed" | undefined;
}
export const bucketRules: ObjectRule = {
  required: ["rate"],
  properties: {
    rate: {
      must: "be a number of at most 1,000,000,000 per s, min, h or day, for example 10/s",
      type: "string",
      format: "rate",
    },
    burst: { must: "be a whole number from 1 to 1000000000", type: "integer", minimum: 1, maximum: 1000000000 },
    dryRun: { must: "be true or false", type: "boolean" },
    priority: { must: "be a whole number from 0 to 1000", type: "integer", minimum: 0, maximum: 1000 },
    onStoreFailure: { must: "be open or local or closed", type: "string", enum: ["open", "local", "closed"] },
  },
};
export const bucketDefaults = { dryRun: false, priority: 2, onStoreFailure: "open" } as const;

/** Tokens that this process holds in advance. */
export interface LeaseOptions {
  /** L3: tokens that a node tries to hold per app. Default: 1000. */
  reserve?: number | undefined;
  /** Share of the lease's target below which a node requests more tokens. Default: 0.2. */
  refillThreshold?: number | undefined;
  /** Time between two messages of a node. While tokens of an app are scarce, its spending is reported this often. Default: 100. */
  syncIntervalMs?: number | undefined;
  /** While tokens are plentiful, a node reports after this many spent tokens. A killed node loses at most these. Default: 1000. */
  batchThreshold?: number | undefined;
  /** While tokens are plentiful, a node reports at least this often. Default: 30000. */
  reportIntervalMs?: number | undefined;
  /** While tokens are plentiful, a lease that was not used for this long is returned with its next report. Default: 90000. */
  idleMs?: number | undefined;
}
export const leaseRules: ObjectRule = {
  required: [],
  properties: {
    reserve: { must: "be a whole number from 1 to 1000000", type: "integer", minimum: 1, maximum: 1000000 },
    refillThreshold: { must: "be a number from 0.01 to 0.99", type: "number", minimum: 0.01, maximum: 0.99 },
    syncIntervalMs: { must: "be a whole number from 10 to 60000", type: "integer", minimum: 10, maximum: 60000 },
    batchThreshold: { must: "be a whole number from 1 to 1000000", type: "integer", minimum: 1, maximum: 1000000 },
    reportIntervalMs: {
      must: "be a whole number from 100 to 3600000",
      type: "integer",
      minimum: 100,
      maximum: 3600000,
    },
    idleMs: { must: "be a whole number from 100 to 3600000", type: "integer", minimum: 100, maximum: 3600000 },
  },
};
export const leaseDefaults = {
  reserve: 1000,
  refillThreshold: 0.2,
  syncIntervalMs: 100,
  batchThreshold: 1000,
  reportIntervalMs: 30000,
  idleMs: 90000,
} as const;

/** Limiters with the same store and cluster share the limits. */
export interface ClusterOptions {
  /** Nodes with the same id on the same store share their limits. Default: "cluster-01". */
  id?: string | undefined;
  /** L1: maximum tokens for all apps together. Default: 1000000. */
  capacity?: number | undefined;
  /** L1: tokens per second for all apps together. Default: 500000. */
  rate?: number | undefined;
  /** Parts into which the apps are divided, each in one hash slot, so that all primaries of a Redis Cluster share the load. Recorded in the store when the first service starts. Cannot be changed for an existing `id`: see GUARANTEES.md, Shards. Default: 16 with Redis Cluster, otherwise 1. */
  shards?: number | undefined;
}
export const clusterRules: ObjectRule = {
  required: [],
  properties: {
    id: { must: "be 1 to 128 of A–Z a–z 0–9 . _ : -", type: "string", pattern: "^[A-Za-z0-9._:-]{1,128}$" },
    capacity: { must: "be a whole number from 1 to 1000000000", type: "integer", minimum: 1, maximum: 1000000000 },
    rate: { must: "be a number from 0.000001 to 1000000000", type: "number", minimum: 0.000001, maximum: 1000000000 },
    shards: { must: "be a whole number from 1 to 256", type: "integer", minimum: 1, maximum: 256 },
  },
};
export const clusterDefaults = { id: "cluster-01", capacity: 1000000, rate: 500000 } as const;

/** Options of a limiter that have a plain value. */
export interface CommonOptions {
  /** Timeout of decisions and store calls. Default: 1000. */
  timeoutMs?: number | undefined;
  /** Default of `failOpenTokens` of apps. Default: each app's own limit. */
  failOpenTokens?: number | undefined;
  /** Maximum number of values of `limits` and keys of `buckets` with their own bucket. Further ones share buckets, 256 per limit, by the network of the client. Default: 10000. */
  maxValues?: number | undefined;
  /** The name of this process in the store. Default: host name and process id. */
  node?: string | undefined;
}
export const commonRules: ObjectRule = {
  required: [],
  properties: {
    timeoutMs: { must: "be a whole number from 10 to 60000", type: "integer", minimum: 10, maximum: 60000 },
    failOpenTokens: {
      must: "be a whole number from 0 to 1000000000",
      type: "integer",
      minimum: 0,
      maximum: 1000000000,
    },
    maxValues: { must: "be a whole number from 1 to 1000000", type: "integer", minimum: 1, maximum: 1000000 },
    node: { must: "be 1 to 100 of A–Z a–z 0–9 . _ : -", type: "string", pattern: "^[A-Za-z0-9._:-]{1,100}$" },
  },
};
export const commonDefaults = { timeoutMs: 1000, maxValues: 10000 } as const;
