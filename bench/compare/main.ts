/** `make compare`: runs Tollgate and its peers through the same scenarios, and writes docs/reference/performance.md and its charts. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { loadavg } from "node:os";
import { WebSocketServer } from "ws";
import { fromRoot } from "../../build/paths.js";
import { findEnvoy } from "../../test/support/find-envoy.js";
import { startSide } from "../gateway.js";
import { machineText, writePart, writeReadme } from "../performance-page.js";
import { ratelimitBinary } from "../support/ratelimit-service.js";
import { chart } from "./chart.js";
import { flexiblePeer } from "./flexible-peer.js";
import { haproxyPeer, haproxyProgram } from "./haproxy-peer.js";
import { MEASURES, type Measured } from "./measures.js";
import { nginxPeer } from "./nginx-peer.js";
import { comparePage, readmeTable } from "./page.js";
import { ratelimitPeer } from "./ratelimit-peer.js";
import { calmUsers, cost, outage, slots, utilisation, windows } from "./scenarios.js";
import type { Kind, World } from "./system.js";
import { tollgateEnvoy, tollgateNginx, tollgateNode } from "./tollgate.js";

function kinds(): Kind[] {
  const hasEnvoy = findEnvoy() !== undefined;
  const ratelimit = hasEnvoy ? ratelimitBinary() : undefined;
  const haproxy = haproxyProgram();
  return [
    tollgateNode,
    tollgateNginx,
    ...(hasEnvoy ? [tollgateEnvoy] : []),
    ...(ratelimit === undefined ? [] : [ratelimitPeer(ratelimit)]),
    flexiblePeer,
    nginxPeer,
    ...(haproxy === undefined ? [] : [haproxyPeer(haproxy)]),
  ];
}

async function measure(kind: Kind, world: World): Promise<Measured> {
  const step = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    console.error(`${kind.title}: ${what} …`);
    return work();
  };
  const system = await step("starting", () => kind.start(world));
  try {
    return {
      name: kind.name,
      title: kind.title,
      isOurs: kind.isOurs,
      version: kind.version(),
      configuration: kind.configuration,
      source: kind.source,
      windows: await step("worst window", () => windows(system)),
      utilisation: await step("utilisation", () => utilisation(system)),
      cost: await step("cost", () => cost(system)),
      calmUsers: kind.hasUserLimit ? await step("refused requests", () => calmUsers(system)) : undefined,
      outage: await step("store killed", () => outage(system)),
      slots:
        kind.startConnections === undefined
          ? undefined
          : await step("connections", () => slots(() => kind.startConnections!(world))),
    };
  } finally {
    await system.stop();
  }
}

async function main(only: string | undefined): Promise<void> {
  const started = performance.now();
  const [load = 0] = loadavg();
  execFileSync(fromRoot("build/ensure-tools.sh"), ["wrk", "go"], { stdio: "inherit" });
  const backend = await startSide("backend");
  const pod = new WebSocketServer({ server: createServer((_request, response) => response.end()) });
  const listening = (pod.options.server as ReturnType<typeof createServer>).listen(0, "127.0.0.1");
  await new Promise((resolve) => listening.once("listening", resolve));
  const world: World = {
    backend: `127.0.0.1:${backend.port}`,
    pod: `127.0.0.1:${(listening.address() as AddressInfo).port}`,
  };
  const all: Measured[] = [];
  try {
    for (const kind of kinds().filter(({ name }) => only === undefined || name === only))
      all.push(await measure(kind, world));
  } finally {
    backend.process.kill("SIGKILL");
    pod.close();
    listening.close();
  }
  if (only !== undefined) {
    console.log(JSON.stringify(all, null, 2));
    return;
  }
  const machine = { date: new Date().toISOString().slice(0, 10), text: machineText(), load };
  writePart("compare", comparePage(all, machine, (performance.now() - started) / 1000));
  writeReadme(readmeTable(all));
  for (const [i, each] of MEASURES.entries())
    writeFileSync(fromRoot(`docs/images/compare-${i + 1}.svg`), chart(each, all));
  console.log("docs/reference/performance.md");
}

await main(process.argv[2]);
process.exit(0);
