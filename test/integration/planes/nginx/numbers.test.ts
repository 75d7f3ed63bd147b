/** Metrics of nginx at the services: with two nginx instances and two services, the sums match the responses that clients received. */
import { request } from "undici";
import { afterEach, expect, it } from "vitest";
import { metrics } from "../../../../src/service/metrics/catalog.js";
import { startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { type Answered, sendLoad } from "../../../support/http-load.js";
import { type ReadPage, readPage } from "../../../support/metrics-page.js";
import { startNginx } from "../../../support/nginx-process.js";
import { startAll } from "../../../support/processes.js";
import { startRedis } from "../../../support/redis-server.js";
import { startTcpProxy } from "../../../support/tcp-proxy.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const numbered = (count: number) => Array.from({ length: count }, (_, i) => i);
const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";

const sum = (pages: ReadPage[], name: string, labels: Record<string, string>) =>
  pages.reduce((all, page) => all + page.sum(name, labels), 0);
const none = { app_id: "none" };

async function start(count: number) {
  const redis = await startRedis();
  endings.push(() => redis.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const yaml = `
store: ${redis.url}
workers: 1
cluster: { id: numbers }
unknown_apps: reject
log: { level: warn }
apps:
  ample: { guaranteed: 100000, burst: 100000, ${BY_REQUEST} }
  scarce: { guaranteed: 1, burst: 5, on_store_failure: closed, ${BY_REQUEST} }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const services = await startAll(numbered(count).map((i) => startGateway(`node_id: service-${i}\n${yaml}`)));
  for (const service of services) endings.push(() => service.stop());
  const pageOf = async (url: string) => readPage(await (await request(`${url}/metrics`)).body.text());
  const pages = () => Promise.all(services.map(({ controlUrl }) => pageOf(controlUrl)));
  // The requests that wait for the gateways to start have no identity and are counted as refusals. The same happens for nginx.
  const before = sum(await pages(), "ratelimit_refusals_total", none);
  const links = await Promise.all(services.map(({ controlUrl }) => startTcpProxy(Number(new URL(controlUrl).port))));
  for (const link of links) endings.push(() => link.stop());
  const addresses = links.map(({ port }) => `127.0.0.1:${port}`);
  const planes = await Promise.all(
    numbered(count).map((i) => startNginx(yaml, { services: addresses, node: `nginx-${i}`, workers: 2 })),
  );
  for (const nginx of planes) endings.push(() => nginx.stop());
  return {
    planes,
    links,
    before,
    services: pages,
    own: () => Promise.all(planes.map(({ statusUrl }) => pageOf(statusUrl))),
  };
}

const seen = (answers: Answered[], status: number) => answers.filter((answer) => answer.status === status).length;

it("the services count each request to nginx once, even if replies are lost and nginx switches to another service", async () => {
  const { planes, links, services, own, before: asked } = await start(2);
  const load = async (seconds: number) => {
    const loads = planes.flatMap(({ url }) => [
      sendLoad(url, "ample", 100, seconds).then((answers) => ({ app: "ample", answers })),
      sendLoad(url, "scarce", 40, seconds).then((answers) => ({ app: "scarce", answers })),
      sendLoad(url, "nobody", 10, seconds).then((answers) => ({ app: "none", answers })),
    ]);
    return Promise.all(loads);
  };
  const strangers = await waitFor("the refusals of the startup requests", async () => {
    const counted = (await own()).map((page) => page.sum("ratelimit_requests_rejected_total", none));
    const all = counted.reduce((sumOfAll, one) => sumOfAll + one, asked);
    return counted.every((one) => one > 0) && sum(await services(), "ratelimit_refusals_total", none) === all && all;
  });
  const rounds = [await load(0.5)];
  const reported = (pages: ReadPage[]) => sum(pages, "ratelimit_requests_total", { app_id: "ample" });
  const first = await waitFor("the first batches", async () => {
    const pages = await services();
    return reported(pages) > 0 && pages;
  });
  // The service receives the messages, but its replies are lost. nginx repeats the messages to the same service, because no other is reachable.
  links[1]!.refuse = true;
  links[1]!.resetAll();
  links[0]!.delayMs = 60_000;
  rounds.push(await load(0.5));
  await waitFor("a batch without a reply", async () => reported(await services()) > reported(first));
  links[0]!.delayMs = 0;
  links[0]!.resetAll();
  const soFar = rounds.flat().filter(({ app }) => app === "ample");
  const sent = soFar.reduce((all, { answers }) => all + answers.length, 0);
  await waitFor("all requests so far to be reported", async () => reported(await services()) >= sent);
  // A batch is counted twice if its reply is lost and it is repeated to another service, as documented. Here all replies arrive before the switch.
  const synced = async () => (await own()).map((page) => page.sum("ratelimit_node_syncs_total", {}));
  const until = (await synced()).map((count) => count + 3);
  await waitFor("the replies", async () => (await synced()).every((count, i) => count >= until[i]!));
  const before = await services();
  links[1]!.refuse = false;
  links[0]!.refuse = true;
  links[0]!.resetAll();
  rounds.push(await load(0.5));
  const of = (app: string) =>
    rounds
      .flat()
      .filter((one) => one.app === app)
      .flatMap(({ answers }) => answers);
  const wanted = {
    ample: { allowed: seen(of("ample"), 200), rejected: of("ample").length - seen(of("ample"), 200) },
    scarce: { allowed: seen(of("scarce"), 200), rejected: of("scarce").length - seen(of("scarce"), 200) },
    none: { allowed: 0, rejected: seen(of("none"), 403) + strangers },
  };
  expect(wanted.scarce.rejected).toBeGreaterThan(20);
  expect(wanted.none.rejected).toBeGreaterThan(5);
  const byApp = (pages: ReadPage[]) =>
    Object.fromEntries(
      Object.keys(wanted).map((app_id) => {
        const requests = (status: string) => sum(pages, "ratelimit_requests_total", { app_id, status });
        return [app_id, { allowed: requests("allowed"), rejected: requests("rejected") }];
      }),
    );
  await waitFor("the sums of all metrics", async () => {
    expect(byApp(await services())).toEqual(wanted);
    return true;
  });
  const after = await services();
  // The second service took over; the first keeps what was reported to it.
  expect(reported([after[1]!])).toBeGreaterThan(0);
  expect(reported([after[0]!])).toBe(reported([before[0]!]));
  const scarce = { app_id: "scarce" };
  expect(sum(after, "ratelimit_refusals_total", scarce)).toBe(wanted.scarce.rejected);
  expect(sum(after, "ratelimit_request_cost_count", { app_id: "ample" })).toBe(of("ample").length);
  expect(sum(after, "ratelimit_l3_hits_total", scarce) + sum(after, "ratelimit_l3_misses_total", scarce)).toBe(
    of("scarce").length,
  );
  expect(after[1]!.value("ratelimit_node_failed_syncs_total", { node_id: "nginx-0" })).toBeGreaterThan(0);
  // The metrics page of nginx has the same values, with documented names.
  const nginx = await own();
  expect(sum(nginx, "ratelimit_requests_allowed_total", { app_id: "ample" })).toBe(wanted.ample.allowed);
  expect(sum(nginx, "ratelimit_requests_rejected_total", {})).toBe(
    wanted.ample.rejected + wanted.scarce.rejected + wanted.none.rejected - asked,
  );
  for (const { types } of nginx) {
    for (const [name, type] of types) expect(metrics[name as keyof typeof metrics]?.type, name).toBe(type);
  }
});

it("nginx reports all remaining counts to the service when it quits", async () => {
  const { planes, services } = await start(1);
  const answers = await sendLoad(planes[0]!.url, "ample", 300, 0.4);
  await planes[0]!.quit();
  expect(sum(await services(), "ratelimit_requests_allowed_total", { app_id: "ample" })).toBe(answers.length);
});
