/** Key names: as the documents spell them, and with one hash tag for all keys of one decision. */
import { readdirSync, readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromRoot } from "../../../build/paths.js";
import * as names from "../../../src/core/keys.js";
import {
  allConnectionsKey,
  appConnectionsKey,
  appKey,
  clientRateKey,
  clusterKey,
  connectionClockKey,
  connectionMember,
  connectionPrefix,
  connectionRateKey,
  ledgerKey,
  nodeInEpoch,
  nodesKey,
  operationKey,
  podKey,
  proxyHeartbeatKey,
  rejectedKey,
  releasedKey,
} from "../../../src/core/keys.js";
import { routeTag } from "../../../src/slots/route-tag.js";

const id = fc.stringMatching(/^[A-Za-z0-9._:-]{1,20}$/);
/** As Redis Cluster finds it: between the first "{" and the next "}". */
const hashTag = (key: string) => /^[^{]*\{([^}]+)\}/.exec(key)?.[1];

describe("quota keys", () => {
  it("have their documented names", () => {
    expect(clusterKey("c1")).toBe("ratelimit:{c1}:cluster");
    expect(appKey("c1", "video")).toBe("ratelimit:{c1}:app:video");
    expect(nodesKey("c1")).toBe("ratelimit:{c1}:nodes");
    expect(ledgerKey("c1", nodeInEpoch("gw-01", "7"))).toBe("ratelimit:{c1}:ledger:gw-01@7");
    expect(operationKey("c1", "op-9")).toBe("ratelimit:{c1}:op:op-9");
  });

  it("of one cluster share a hash slot, whatever the ids", () => {
    fc.assert(
      fc.property(id, id, id, (cluster, name, epoch) => {
        const keys = [
          clusterKey(cluster),
          appKey(cluster, name),
          nodesKey(cluster),
          ledgerKey(cluster, nodeInEpoch(name, epoch)),
          operationKey(cluster, name),
        ];
        expect(keys.map(hashTag)).toEqual(keys.map(() => cluster));
        expect(new Set(keys).size).toBe(keys.length);
      }),
    );
  });
});

describe("connection keys", () => {
  it("have their documented names", () => {
    const prefix = connectionPrefix(routeTag("c1", "/ws/"));
    expect(podKey(prefix, "pod-1")).toBe("ws:{c1//ws/}:pod_conn:pod-1");
    expect(connectionRateKey(prefix, "60000")).toBe("ws:{c1//ws/}:rate_limit:60000");
    expect(clientRateKey(prefix, "60000", "2001:db8::")).toBe("ws:{c1//ws/}:client_rate:60000:2001:db8::");
    expect(rejectedKey(prefix)).toBe("ws:{c1//ws/}:rejected");
    expect(proxyHeartbeatKey(prefix, "gw-01")).toBe("ws:{c1//ws/}:proxy:gw-01:heartbeat");
    expect(allConnectionsKey(prefix)).toBe("ws:{c1//ws/}:global_conn");
    expect(appConnectionsKey(prefix, "video")).toBe("ws:{c1//ws/}:app_conn:video");
    expect(releasedKey(prefix)).toBe("ws:{c1//ws/}:released");
    expect(connectionClockKey(prefix)).toBe("ws:{c1//ws/}:clock");
  });

  it("share a hash slot on Redis Cluster", () => {
    const prefix = connectionPrefix(routeTag("c1", "a.example/ws/"));
    fc.assert(
      fc.property(id, (name) => {
        const keys = [
          podKey(prefix, name),
          connectionRateKey(prefix, name),
          clientRateKey(prefix, "1000", name),
          rejectedKey(prefix),
          proxyHeartbeatKey(prefix, name),
          allConnectionsKey(prefix),
          appConnectionsKey(prefix, name),
          releasedKey(prefix),
          connectionClockKey(prefix),
        ];
        expect(keys.map(hashTag)).toEqual(keys.map(() => "c1/a.example/ws/"));
        expect(new Set(keys).size).toBe(keys.length);
      }),
    );
  });
});

it("no two pairs of ids give the same node in an epoch, or the same connection", () => {
  fc.assert(
    fc.property(id, id, id, id, (a, b, c, d) => {
      const same = a === c && b === d;
      expect(nodeInEpoch(a, b) === nodeInEpoch(c, d)).toBe(same);
      expect(connectionMember(a, b) === connectionMember(c, d)).toBe(same);
    }),
  );
  expect(nodeInEpoch("a", "b:c")).not.toBe(nodeInEpoch("a:b", "c"));
});

describe("the documentation", () => {
  const read = (path: string) => readFileSync(fromRoot(path), "utf8");

  it("has exactly the keys and channels of the source", () => {
    const { clusterKey, connectionPrefix, recallChannel, ...others } = names;
    const built = Object.entries(others)
      .filter(([name]) => /(Key|Channel)$/.test(name))
      .map(([, build]) => String(Reflect.apply(build as () => string, undefined, Array(5).fill("<>"))));
    const cluster = clusterKey("<>");
    const inSource = [
      cluster,
      recallChannel(cluster),
      ...built.map((name) => name.replace(/^<>/, connectionPrefix("<>"))),
    ];
    const [, table = ""] = /^## Keys\n(.*?)^`<shard>`/ms.exec(read("docs/PROTOCOL.md")) ?? [];
    const cells = [...table.matchAll(/^\| (.*?) \|/gm)].map(([, cell = ""]) => cell);
    const documented = cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name));
    expect(documented.map((name) => name.replace(/<[^>]+>/g, "<>")).sort()).toEqual(inSource.sort());
  });

  it("names keys with these prefixes only, on all pages", () => {
    const pages = readdirSync(fromRoot("docs"), { recursive: true, encoding: "utf8" }).filter((path) =>
      path.endsWith(".md"),
    );
    const prefixes = pages.flatMap(
      (page) => read(`docs/${page}`).match(/\w+:(?=\{[<\w]|pod_conn:|global_conn)/g) ?? [],
    );
    expect([...new Set(prefixes)].sort()).toEqual([names.LIMITS_PREFIX, names.CONNECTIONS_PREFIX]);
  });

  it.each(["docs/SECURITY.md", "deploy/compose/make-secrets.sh"])(
    "permits all keys and channels, and no others, to the user of %s",
    (path) => {
      const [, ...patterns] = / ~(\S+)\* ~(\S+)\* &(\S+)\* /.exec(read(path)) ?? [];
      expect(patterns).toEqual([names.LIMITS_PREFIX, names.CONNECTIONS_PREFIX, names.LIMITS_PREFIX]);
    },
  );
});
