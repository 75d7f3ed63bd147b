/** Three gateway processes with one worker each, on one Redis, in front of one backend. */
import { startGateway, startSmallBackend } from "./gateway-process.js";
import { startAll } from "./processes.js";
import { startRedis } from "./redis-server.js";

/** `apps` is the content of `apps: { … }`, `more` is further YAML. `endings` stops what was started. */
export async function startThreeGateways(endings: (() => unknown)[], apps: string, more = "") {
  const server = await startRedis();
  endings.push(() => server.stop());
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const starting = [1, 2, 3].map((number) =>
    startGateway(`
node_id: gw-${number}
workers: 1
store: ${server.url}
apps: { ${apps} }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
log: { level: warn }
${more}
`),
  );
  const gateways = await startAll(starting);
  endings.push(() => Promise.all(gateways.map((gateway) => gateway.stop())));
  return { server, backend, gateways };
}
