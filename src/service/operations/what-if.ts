/** The effective configuration, and what another one would change. */
import { MOST_LISTED_APPS } from "../../config/live/effective.js";
import { whatIf } from "../../simulate/what-if.js";
import type { OperationsContext } from "./context.js";
import * as contract from "./contract/contract.js";
import { ifAvailable } from "./deadline.js";
import { admin, type Endpoint, ok, problem } from "./endpoint.js";

const MOST_CHANGES = 1_000;
const MOST_BYTES = 512 * 1024;

export function whatIfEndpoints(context: OperationsContext): Endpoint[] {
  const { live } = context;
  let isRunning = false;

  async function replay(after: ReturnType<typeof live.current>): Promise<contract.WhatIfReply["replay"]> {
    const samples = (await ifAvailable(context.ask({ kind: "sample" }))) ?? [];
    const requests = samples.flat().sort((one, other) => one[0] - other[0]);
    const [first, last] = [requests.at(0), requests.at(-1)];
    if (first === undefined || last === undefined) return null;
    const nodes = Math.max(samples.length, 1);
    const apps = await whatIf({ before: live.current(), after, requests, nodes });
    return {
      requests: requests.length,
      seconds: Math.round((last[0] - first[0]) / 100) / 10,
      nodes,
      apps: apps
        .map(({ app, requests: count, refusedBefore, refusedAfter }) => ({
          ...{ app_id: app, requests: count, refused_before: refusedBefore, refused_after: refusedAfter },
        }))
        .sort((one, other) => other.requests - one.requests),
    };
  }

  return [
    admin("GET", "config/effective", {
      summary: "All options of the active configuration with their source. Secrets are hidden.",
      reply: contract.effectiveReply,
      handle() {
        const apps = Object.keys(live.current().apps).length;
        return ok({
          config_version: live.version(),
          options: live.effective(),
          apps_left_out: apps > MOST_LISTED_APPS ? apps : 0,
          timestamp: context.timestamp(),
        });
      },
    }),

    admin("POST", "config/what-if", {
      summary:
        "Validates a configuration, compares it with the active one, and replays recent requests with both. Changes nothing.",
      request: contract.whatIfRequest,
      mostBodyBytes: MOST_BYTES,
      reply: contract.whatIfReply,
      others: { 409: { summary: "Another replay is running." } },
      async handle({ body: { yaml } }) {
        if (isRunning) return problem(409, "conflict", "replay_running", { detail: "another replay is running" });
        isRunning = true;
        try {
          const { problems, config, options } = await live.tryFile(yaml);
          const timestamp = context.timestamp();
          if (config === undefined) return ok({ problems, changes: [], replay: null, timestamp });
          const before = new Map(live.effective().map(({ path, value }) => [path, value]));
          const after = new Map(options.map(({ path, value }) => [path, value]));
          const changes = [...new Set([...before.keys(), ...after.keys()])]
            .filter((path) => before.get(path) !== after.get(path))
            .slice(0, MOST_CHANGES)
            .map((path) => ({ path, before: before.get(path) ?? null, after: after.get(path) ?? null }));
          return ok({ problems: [], changes, replay: await replay(config), timestamp });
        } finally {
          isRunning = false;
        }
      },
    }),
  ];
}
