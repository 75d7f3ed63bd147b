/** Reloads the configuration, and reads and writes its store layer. */
import type { ReloadResult } from "../../config/live/live.js";
import { StoreError } from "../../store/errors.js";
import type { OperationsContext } from "./context.js";
import type { LayerReply, LayerRequest, ReloadReply, ReloadRequest } from "./contract/contract.js";
import { CHANGE_MS, READ_MS, within } from "./deadline.js";
import { redacted, withoutSecrets } from "./redact.js";
import { ok, problem, type Reply } from "./reply.js";

type Rejected = Extract<ReloadResult, { status: "refused" }>;

export function configOperations(context: OperationsContext) {
  const { live } = context;

  function rejection({ problems, restartNeeded }: Rejected): Reply<never> {
    if (restartNeeded.length === 0) {
      const { path = "", reason = "" } = problems[0] ?? {};
      const detail = "nothing was changed; the current configuration stays active";
      return problem(422, "invalid_config", `${path}: ${reason}`, { field: path, detail, problems });
    }
    const detail = "nothing was changed; with force, all changes that need no restart are applied";
    return problem(409, "conflict", "restart_needed", { detail, problems });
  }

  async function layer(): Promise<LayerReply> {
    const { revision, config } = await within(READ_MS, live.layer());
    return {
      revision,
      config: withoutSecrets(config) as Record<string, unknown>,
      config_version: live.version(),
      timestamp: context.timestamp(),
    };
  }

  /** Null if the stored layer cannot be parsed; it can still be replaced. */
  async function currentRevision(): Promise<number | null> {
    try {
      return (await within(READ_MS, live.layer())).revision;
    } catch (error) {
      if (error instanceof StoreError) throw error;
      return null;
    }
  }

  return {
    async reload({ source, force }: ReloadRequest): Promise<Reply<ReloadReply>> {
      const before = { config_version: live.version() };
      const fromStore = source === "redis" || source === "store";
      // An unavailable store is not an error of the configuration.
      if (fromStore && (await context.storeFacts()) === undefined) {
        throw new StoreError("unavailable", "the store does not answer");
      }
      const result = await within(CHANGE_MS, live.reload({ source: source === "redis" ? "store" : source, force }));
      if (result.status === "refused") return { ...rejection(result), before, after: before };
      return ok(
        {
          status: result.status,
          timestamp: context.timestamp(),
          apps_affected: result.appsAffected,
          config_version: result.version,
          previous_version: result.previousVersion,
          restart_needed: result.restartNeeded,
        },
        { before, after: { config_version: result.version } },
      );
    },

    async layer(): Promise<Reply<LayerReply>> {
      try {
        return ok(await layer());
      } catch (error) {
        if (error instanceof StoreError || !(error instanceof Error)) throw error;
        const detail = "the stored layer is invalid; write another one to replace it";
        return problem(422, "invalid_config", error.message, { detail });
      }
    },

    async putLayer(request: Pick<LayerRequest, "config" | "expected_revision">): Promise<Reply<LayerReply>> {
      const before = { revision: await currentRevision(), config_version: live.version() };
      const result = await within(CHANGE_MS, live.putLayer(request.config, request.expected_revision));
      // Rejected values are not logged: one may be a secret under a misspelt name.
      const parameters = { options: Object.keys(request.config) };
      if (result.status === "conflict") {
        const detail = `the revision is ${result.revision} now; read the layer again before writing`;
        const conflict = problem(409, "conflict", "revision_changed", { field: "expected_revision", detail });
        return { ...conflict, before, after: before, parameters };
      }
      if (result.status === "refused") return { ...rejection(result), before, after: before, parameters };
      const body = await layer();
      const after = { revision: body.revision, config_version: body.config_version };
      return ok(body, { before, after, parameters: { config: redacted(request.config) } });
    },
  };
}
