/** Reloads the configuration, and reads and writes its store layer. */
import { configDifferences } from "../../config/live/differences.js";
import type { ReloadResult } from "../../config/live/live.js";
import type { Config } from "../../config/schema.js";
import { StoreError } from "../../store/errors.js";
import type { OperationsContext } from "./context.js";
import * as contract from "./contract/contract.js";
import { CHANGE_MS, READ_MS, within } from "./deadline.js";
import { admin, type Endpoint, ok, problem, type Reply } from "./endpoint.js";
import { redacted, withoutSecrets } from "./redact.js";

type Rejected = Extract<ReloadResult, { status: "refused" }>;

const invalidConfig = { 422: { summary: "The configuration is invalid; the reply lists all problems." } };
const layerChange = {
  409: { summary: "Another revision was written meanwhile, or an option needs a restart." },
  ...invalidConfig,
};
/** Listed for one change. */
const MOST_CHANGES = 200;
/** A layer may contain many apps. */
const MOST_LAYER_BYTES = 1024 * 1024;

export function configEndpoints(context: OperationsContext): Endpoint[] {
  const { live } = context;

  function rejection({ problems, restartNeeded, needsConfirmation }: Rejected): Reply<never> {
    if (needsConfirmation === true) {
      const detail = "nothing was changed; with confirm, this configuration is applied";
      return problem(409, "conflict", "confirmation_needed", { field: "confirm", detail, problems });
    }
    if (restartNeeded.length === 0) {
      const { path = "", reason = "" } = problems[0] ?? {};
      const detail = "nothing was changed; the current configuration stays active";
      return problem(422, "invalid_config", `${path}: ${reason}`, { field: path, detail, problems });
    }
    const detail = "nothing was changed; with force, all changes that need no restart are applied";
    return problem(409, "conflict", "restart_needed", { detail, problems });
  }

  const changesSince = (config: Config) => configDifferences(config, live.current(), MOST_CHANGES);

  async function layer(): Promise<contract.LayerReply> {
    const { revision, config } = await within(READ_MS, live.layer());
    return {
      revision,
      config: withoutSecrets(config) as Record<string, unknown>,
      active: {
        revision: live.activeLayer().revision,
        config: withoutSecrets(live.activeLayer().config) as Record<string, unknown>,
      },
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

  async function putLayer(config: Record<string, unknown>, expected?: number): Promise<Reply<contract.LayerReply>> {
    const before = { revision: await currentRevision(), config_version: live.version() };
    const previous = live.current();
    const result = await within(CHANGE_MS, live.putLayer(config, expected));
    // Rejected values are not logged: one may be a secret under a misspelt name.
    const parameters = { options: Object.keys(config) };
    if (result.status === "conflict") {
      const detail = `the revision is ${result.revision} now; read the layer again before writing`;
      const conflict = problem(409, "conflict", "revision_changed", { field: "expected_revision", detail });
      return { ...conflict, before, after: before, parameters };
    }
    if (result.status === "refused") return { ...rejection(result), before, after: before, parameters };
    const body = await layer();
    const after = { revision: body.revision, config_version: body.config_version };
    return ok(body, { before, after, parameters: { config: redacted(config) }, changes: changesSince(previous) });
  }

  return [
    admin("POST", "reload", {
      summary: "Reads the configuration again; an invalid one changes nothing.",
      action: "reload",
      request: contract.reloadRequest,
      reply: contract.reloadReply,
      others: {
        ...invalidConfig,
        409: {
          summary:
            "Options need a restart; force applies the others. Or most apps, routes or limits would be removed; confirm does.",
        },
      },
      async handle({ body: { source, force, confirm } }) {
        const before = { config_version: live.version() };
        const config = live.current();
        const fromStore = source === "redis" || source === "store";
        // An unavailable store is not an error of the configuration.
        if (fromStore && (await context.storeFacts()) === undefined) {
          throw new StoreError("unavailable", "the store does not answer");
        }
        const order = { source: source === "redis" ? "store" : source, force, confirm } as const;
        const result = await within(CHANGE_MS, live.reload(order));
        if (result.status === "refused") return { ...rejection(result), before, after: before };
        return ok(
          {
            status: result.status,
            timestamp: context.timestamp(),
            apps_affected: result.appsAffected,
            limits_affected: result.limitsAffected,
            config_version: result.version,
            previous_version: result.previousVersion,
            restart_needed: result.restartNeeded,
          },
          { before, after: { config_version: result.version }, changes: changesSince(config) },
        );
      },
    }),

    admin("GET", "config", {
      summary: "The configuration layer in the store. Secrets are hidden.",
      reply: contract.layerReply,
      others: { 422: { summary: "The stored layer is invalid." } },
      async handle() {
        try {
          return ok(await layer());
        } catch (error) {
          if (error instanceof StoreError || !(error instanceof Error)) throw error;
          const detail = "the stored layer is invalid; write another one to replace it";
          return problem(422, "invalid_config", error.message, { detail });
        }
      },
    }),

    admin("PUT", "config", {
      summary: "Replaces the layer for all nodes, after the resulting configuration was validated.",
      action: "config.put",
      request: contract.layerRequest,
      mostBodyBytes: MOST_LAYER_BYTES,
      reply: contract.layerReply,
      others: layerChange,
      handle: ({ body }) => putLayer(body.config, body.expected_revision),
    }),

    admin("POST", "config/restore", {
      summary: "Writes the layer that is in force on this service to the store, which was emptied.",
      action: "config.restore",
      request: contract.restoreRequest,
      reply: contract.layerReply,
      others: layerChange,
      handle: () => putLayer(live.activeLayer().config),
    }),

    admin("DELETE", "config", {
      summary: "Removes the layer; defaults, file and environment remain.",
      action: "config.delete",
      reply: contract.layerReply,
      others: layerChange,
      handle: () => putLayer({}),
    }),
  ];
}
