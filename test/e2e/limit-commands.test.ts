/** Commands about limits of `limits`, and Envoy's rate limit service with them, against a real service. */
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runCommandLine } from "../../src/cli/command-line.js";
import {
  type GatewayProcess,
  PLANE_TOKEN,
  type SmallBackend,
  startGateway,
  startSmallBackend,
} from "../support/gateway-process.js";
import { freePort } from "../support/ports.js";
import { waitFor } from "../support/wait-for.js";

let gateway: GatewayProcess;
let backend: SmallBackend;
let envoyPort: number;

beforeAll(async () => {
  backend = await startSmallBackend();
  envoyPort = await freePort();
  gateway = await startGateway(`
workers: 1
lease: { timeout_ms: 10000, report_interval_ms: 100 }
envoy: { listen: "127.0.0.1:${envoyPort}" }
limits:
  - { name: per-user, key: [user], rate: 5/day, match: { path: [/] } }
  - { name: pairs, key: [app, ip], rate: 2/day, match: { path: [/pairs] } }
  - { name: rls, key: [user], rate: 2/day, match: { header: [{ name: via-envoy, value: "yes" }] } }
  - { name: rls-ip, key: [ip], rate: 3/day, match: { header: [{ name: via-envoy, value: "yes" }] } }
rate_limits: [{ domain: edge, descriptors: [{ key: tenant, rate_limit: { unit: day, requests_per_unit: 2 } }] }]
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`);
  await tollgate("degradation", "set", "0", "--for", "1h", "--operator", "kim");
});

afterAll(async () => {
  await gateway.stop();
  await backend.stop();
});

const tollgate = (...words: string[]) => runCommandLine([...words, "--config", gateway.file, "--timeout", "30s"]);
const said = async (...words: string[]) => stripVTControlCharacters((await tollgate(...words)).text);

let refusedByGateway = 0;

async function ask(user: string, path = "/"): Promise<number> {
  const response = await fetch(gateway.url + path, { headers: { "x-user-id": user, "x-forwarded-for": "192.0.2.7" } });
  await response.arrayBuffer();
  if (response.status === 429) refusedByGateway++;
  return response.status;
}

it("show the use of a value, explain it, fill its bucket and add tokens to it", async () => {
  const statuses: number[] = [];
  for (let i = 0; i < 6; i++) statuses.push(await ask("ann"));
  expect(statuses).toEqual([200, 200, 200, 200, 200, 429]);
  await ask("bob");
  const used =
    /per-user {2}5\/day per user, burst 5.*\n\d+ requests counted by this service, 1 refused.*\n.*\n\s*ann\s+5\s+0[\s\S]*bob\s/;
  await waitFor("the use to be reported", async () => used.test(await said("usage", "per-user")));
  expect(await said("why", "per-user", "ann")).toMatch(
    /ann has used 5 of 5 tokens of per-user: further requests are refused/,
  );
  expect(await said("top-up", "per-user", "ann", "2", "--operator", "kim")).toMatch(
    /per-user: ann got 2 tokens, 2 in the bucket/,
  );
  await waitFor("the tokens to be usable", async () => (await ask("ann")) === 200);
  expect(await said("reset", "per-user", "ann", "--operator", "kim")).toMatch(/per-user: ann got \d tokens?/);
  await waitFor("ann to pass", async () => (await ask("ann")) === 200);
  expect(gateway.output()).toMatch(/"action":"limit-reset"/);
});

it("name the limit or the part of the key that is wrong", async () => {
  expect(await tollgate("usage", "per-usr")).toMatchObject({
    exitCode: 1,
    complaint: expect.stringMatching(/did you mean per-user/),
  });
  expect((await tollgate("usage", "pairs", "x")).complaint).toMatch(/must be app,ip/);
  expect((await tollgate("reset", "pairs", "shop,300.1.1.1", "--operator", "kim")).complaint).toMatch(
    /must be an address/,
  );
  expect(JSON.parse((await tollgate("usage", "pairs", "default,192.0.2.7", "--json")).text)).toMatchObject({
    values: [{ value: "default,192.0.2.7", used: 0, remaining: 2 }],
  });
});

it("Envoy's rate limit service takes the limits of the domain `limits` together", async () => {
  async function decide(user: string): Promise<string> {
    const entries = [
      { key: "user", value: user },
      { key: "remote_address", value: "192.0.2.200" },
      { key: "path", value: "/envoy" },
      { key: "header:Via-Envoy", value: "yes" },
    ];
    // `per-user` matches every path.
    const body = JSON.stringify({ domain: "limits", descriptors: [{ entries }] });
    const headers = { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": "application/json" };
    const response = await fetch(`http://127.0.0.1:${envoyPort}/json`, { method: "POST", body, headers });
    const { statuses } = (await response.json()) as { statuses: { currentLimit: { name: string } }[] };
    return `${response.status} ${statuses[0]!.currentLimit.name}`;
  }
  const seen = [await decide("x"), await decide("x"), await decide("x"), await decide("y"), await decide("y")];
  expect(seen.map((one) => one.slice(0, 3))).toEqual(["200", "200", "429", "200", "429"]);
  expect([seen[2], seen[4]]).toEqual(["429 rls", "429 rls-ip"]);
});

it("list all limits, those of `rate_limits` with the requests and refusals that Envoy's rate limit service decided", async () => {
  const body = JSON.stringify({ domain: "edge", descriptors: [{ entries: [{ key: "tenant", value: "t1" }] }] });
  const headers = { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": "application/json" };
  const statuses: number[] = [];
  for (let i = 0; i < 5; i++) {
    const response = await fetch(`http://127.0.0.1:${envoyPort}/json`, { method: "POST", body, headers });
    await response.arrayBuffer();
    statuses.push(response.status);
  }
  expect(statuses).toEqual([200, 200, 429, 429, 429]);
  const perUser = new RegExp(`^per-user +user +5/day +5 +\\d+ +${refusedByGateway} +requests$`, "m");
  await waitFor("all refusals to be listed", async () => perUser.test(await said("usage")));
  expect(await said("usage")).toMatch(/^rate-limit:edge\/tenant +2\/day +5 +3 +\S/m);
});
