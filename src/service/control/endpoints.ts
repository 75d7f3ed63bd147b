/** Binds the endpoints of the service to their operations. */
import type { Operations } from "../operations/operations.js";
import { ok, problem, type Reply } from "../operations/reply.js";
import { calls } from "./calls.js";
import { bind, type Endpoint } from "./endpoint.js";
import { BadField } from "./plane-api/fields.js";
import type { SyncHandler } from "./plane-api/sync.js";
import { parseSync, syncText } from "./plane-api/sync-message.js";

export interface ServiceEndpointsOptions {
  operations: Operations;
  sync: SyncHandler;
  /** Undefined if metrics are disabled. */
  metrics(): Promise<{ text: string; contentType: string } | undefined>;
}

export function serviceEndpoints({ operations, sync, metrics }: ServiceEndpointsOptions): Endpoint[] {
  return [
    bind(calls.live, operations.live),
    bind(calls.ready, operations.ready),
    bind(calls.deep, operations.deep),
    bind(calls.metrics, async () => {
      const page = await metrics();
      if (page !== undefined) return ok(page.text, { mediaType: page.contentType });
      return problem(404, "not_found", "metrics_disabled", { detail: "metrics.enabled is false" });
    }),
    bind(calls.sync, ({ text, mediaType }) => answerSync(sync, text, mediaType)),
    bind(calls.status, operations.status),
    bind(calls.degradation, operations.degradation),
    bind(calls.setDegradation, ({ body, operator }) => operations.setDegradation(body, operator)),
    bind(calls.unpinDegradation, operations.unpinDegradation),
    bind(calls.emergency, operations.emergency),
    bind(calls.setEmergency, ({ body, operator }) => operations.setEmergency(body, operator)),
    bind(calls.reconcile, ({ body }) => operations.reconcile(body)),
    bind(calls.reload, ({ body }) => operations.reload(body)),
    bind(calls.layer, operations.layer),
    bind(calls.putLayer, ({ body }) => operations.putLayer(body)),
    bind(calls.deleteLayer, () => operations.putLayer({ config: {} })),
    bind(calls.borrow, ({ body }) => operations.borrow(body)),
    bind(calls.repay, ({ body }) => operations.repay(body)),
    bind(calls.apps, ({ query }) => operations.apps(query)),
    bind(calls.app, ({ params }) => operations.app(params.id ?? "")),
    bind(calls.connections, operations.connections),
  ];
}

async function answerSync(sync: SyncHandler, text: string, mediaType: string): Promise<Reply> {
  const format = mediaType === "text/plain" ? "text" : "json";
  try {
    const reply = await sync(parseSync(format, text));
    return format === "json" ? ok(reply) : ok(syncText(reply), { mediaType: "text/plain; charset=utf-8" });
  } catch (error) {
    if (!(error instanceof BadField)) throw error;
    return problem(400, "invalid_argument", error.message, { field: error.field });
  }
}
