/** The configuration in force: reading it anew, and its layer in the store. */

import type { ReloadResult } from "../../config/live.js";
import { StoreError } from "../../store/errors.js";
import { shown } from "../control/access/audit.js";
import type { LayerOrder, LayerReply, ReloadOrder, ReloadReply } from "../control/contract/contract.js";
import { answer, problem, type Reply } from "../control/endpoint.js";
import { ORDER_MS, READ_MS, within } from "./deadline.js";
import type { Knowledge } from "./knowledge.js";

type Refused = Extract<ReloadResult, { status: "refused" }>;

export function configOperations(know: Knowledge) {
  const { live } = know.deps;

  /** What is wrong and what would need a restart, each with its place. */
  function refusal({ problems, restartNeeded }: Refused): Reply<never> {
    if (restartNeeded.length === 0) {
      const { path = "", reason = "" } = problems[0] ?? {};
      const detail = "nothing was changed; the configuration that was in force stays";
      return problem(422, "invalid_config", `${path}: ${reason}`, { field: path, detail, problems });
    }
    const detail = "nothing was changed; with force, all that needs no restart is applied";
    return problem(409, "conflict", "restart_needed", { detail, problems });
  }

  /** With the secrets hidden: who may see the limits need not learn the keys of apps. */
  async function layer(): Promise<LayerReply> {
    const { revision, config } = await within(READ_MS, live.layer());
    return {
      revision,
      config: withoutSecrets(config) as Record<string, unknown>,
      config_version: live.version(),
      timestamp: know.timestamp(),
    };
  }

  /** Null where what stands there cannot be read; it can still be replaced. */
  async function revisionNow(): Promise<number | null> {
    try {
      return (await within(READ_MS, live.layer())).revision;
    } catch (error) {
      if (error instanceof StoreError) throw error;
      return null;
    }
  }

  return {
    async reload({ source, force }: ReloadOrder): Promise<Reply<ReloadReply>> {
      const before = { config_version: live.version() };
      const fromStore = source === "redis" || source === "store";
      // Where only the store's layer was asked for, a store that is gone is no fault of the configuration.
      if (fromStore && (await know.store()) === undefined) throw new StoreError("unavailable", "it does not answer");
      const result = await within(ORDER_MS, live.reload({ source: source === "redis" ? "store" : source, force }));
      if (result.status === "refused") return { ...refusal(result), before, after: before };
      return answer(
        {
          ...{ status: result.status, timestamp: know.timestamp(), apps_affected: result.appsAffected },
          ...{ config_version: result.version, previous_version: result.previousVersion },
          restart_needed: result.restartNeeded,
        },
        { before, after: { config_version: result.version } },
      );
    },

    async layer(): Promise<Reply<LayerReply>> {
      try {
        return answer(await layer());
      } catch (error) {
        if (error instanceof StoreError || !(error instanceof Error)) throw error;
        const detail = "what stands in the store is no layer; writing another one mends it";
        return problem(422, "invalid_config", error.message, { detail });
      }
    },

    async putLayer(order: Pick<LayerOrder, "config" | "expected_revision">): Promise<Reply<LayerReply>> {
      const before = { revision: await revisionNow(), config_version: live.version() };
      const result = await within(ORDER_MS, live.putLayer(order.config, order.expected_revision));
      // What was not found right may be a secret under a misspelt name.
      const names = { options: Object.keys(order.config) };
      if (result.status === "conflict") {
        const detail = `the revision is ${result.revision} now; read it, and write again`;
        const conflict = problem(409, "conflict", "revision_changed", { field: "expected_revision", detail });
        return { ...conflict, before, after: before, parameters: names };
      }
      if (result.status === "refused") return { ...refusal(result), before, after: before, parameters: names };
      const body = await layer();
      const after = { revision: body.revision, config_version: body.config_version };
      return answer(body, { before, after, parameters: { config: shown(order.config) } });
    },
  };
}

const secretNames = new Set(["admin_token", "plane_token", "api_keys", "store"]);

function withoutSecrets(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutSecrets);
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, secretNames.has(name) ? "(hidden)" : withoutSecrets(inner)]),
  );
}
