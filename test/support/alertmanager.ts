/** A real Alertmanager on a free port that delivers to a webhook of the test. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { request } from "undici";
import { parse, stringify } from "yaml";
import { freePort } from "./ports.js";
import { startProcess } from "./processes.js";
import { waitFor } from "./wait-for.js";

interface Delivered {
  alertname: string;
  severity: string;
  receiver: string;
}

export interface Alertmanager {
  /** host:port */
  readonly address: string;
  /** Alerts that the webhook got. */
  readonly delivered: Delivered[];
  stop(): Promise<void>;
}

interface Route {
  group_wait: string;
  group_interval: string;
  routes?: Route[];
}

/** @param config as in monitoring/; its receivers get a destination, and groups are sent soon */
export async function startAlertmanager(config: string): Promise<Alertmanager> {
  const delivered: Delivered[] = [];
  const webhook = createServer((incoming, response) => {
    void json(incoming).then((body) => {
      const { receiver, alerts } = body as { receiver: string; alerts: { labels: Delivered }[] };
      for (const { labels } of alerts) delivered.push({ ...labels, receiver });
      response.end();
    });
  });
  await new Promise<void>((resolve) => webhook.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(webhook.address() as AddressInfo).port}/`;
  const parsed = parse(config) as { route: Route; receivers: { name: string }[] };
  const soon = ({ routes = [], ...route }: Route): Route => ({
    ...{ ...route, group_wait: "1s", group_interval: "1s" },
    ...(routes.length === 0 ? {} : { routes: routes.map(soon) }),
  });
  const changed = {
    ...parsed,
    route: soon(parsed.route),
    receivers: parsed.receivers.map(({ name }) => ({ name, webhook_configs: [{ url, send_resolved: false }] })),
  };
  const dir = await mkdtemp(join(tmpdir(), "tollgate-alertmanager-"));
  const file = join(dir, "alertmanager.yml");
  await writeFile(file, stringify(changed));
  const address = `127.0.0.1:${await freePort()}`;
  const server = startProcess(
    "prometheus-alertmanager",
    [`--config.file=${file}`, `--storage.path=${dir}`, `--web.listen-address=${address}`, "--cluster.listen-address="],
    dir,
  );
  await waitFor("alertmanager (is it installed?)", async () => {
    if (server.hasEnded()) throw new Error(server.output());
    return (await request(`http://${address}/-/ready`)).statusCode === 200;
  });
  return {
    address,
    delivered,
    async stop() {
      await server.end("SIGKILL");
      webhook.close();
      webhook.closeAllConnections();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
